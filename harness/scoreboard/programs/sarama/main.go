// Sends lines to a topic, or prints the records of one: sarama.
package main

import (
	"bufio"
	"log"
	"os"

	"github.com/IBM/sarama"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func produce(mode string, config *sarama.Config) {
	switch mode {
	case "at-most-once":
		config.Producer.Retry.Max = 0
	case "at-least-once":
		config.Producer.RequiredAcks = sarama.WaitForAll
	}
	producer, err := sarama.NewAsyncProducer([]string{os.Getenv("BOOTSTRAP_SERVERS")}, config)
	check(err)
	go func() {
		for failed := range producer.Errors() {
			log.Print("not sent: ", failed.Err)
			if mode != "at-most-once" {
				os.Exit(1)
			}
		}
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		producer.Input() <- &sarama.ProducerMessage{Topic: "orders", Value: sarama.StringEncoder(lines.Text())}
	}
	check(producer.Close())
}

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	switch mode := os.Args[2]; os.Args[1] {
	case "producer":
		produce(mode, config)
	default:
		consume(os.Args[1], mode, config)
	}
}
