package main

import (
	"bufio"
	"context"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func produce(ctx context.Context, mode string, options []kgo.Opt) {
	switch mode {
	case "at-most-once":
		options = append(options, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.RecordRetries(0))
	case "at-least-once":
		options = append(options, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	told := func(_ *kgo.Record, err error) {
		if err != nil && mode == "at-most-once" {
			log.Print("not sent: ", err)
		} else {
			check(err)
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		client.Produce(ctx, &kgo.Record{Topic: "orders", Value: []byte(lines.Text())}, told)
	}
	check(client.Flush(ctx))
	client.Close()
}

func main() {
	seeds := kgo.SeedBrokers(os.Getenv("BOOTSTRAP_SERVERS"))
	switch ctx, mode := context.Background(), os.Args[2]; os.Args[1] {
	case "producer":
		produce(ctx, mode, []kgo.Opt{seeds})
	case "consumer":
		consume(ctx, mode, []kgo.Opt{seeds, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders")})
	case "processor":
		process(ctx, seeds)
	}
}
