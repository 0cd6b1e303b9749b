// Sends lines to a topic, or prints the records of one: segmentio/kafka-go.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/segmentio/kafka-go"
)

func main() {
	ctx, servers := context.Background(), os.Getenv("BOOTSTRAP_SERVERS")
	if os.Args[1] == "producer" {
		produce(ctx, os.Args[2], servers)
		return
	}
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{servers}, GroupID: "billing", Topic: "orders"})
	for {
		read := reader.ReadMessage // it commits what it returns
		if os.Args[2] == "at-least-once" {
			read = reader.FetchMessage
		}
		message, err := read(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(message.Value))
		if os.Args[2] == "at-least-once" {
			if err := reader.CommitMessages(ctx, message); err != nil {
				log.Fatal(err)
			}
		}
	}
}
