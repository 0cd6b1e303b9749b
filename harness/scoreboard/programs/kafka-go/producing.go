package main

import (
	"bufio"
	"context"
	"log"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

func produce(ctx context.Context, mode, servers string) {
	writer := &kafka.Writer{Addr: kafka.TCP(servers), Topic: "orders", Async: true, BatchTimeout: 10 * time.Millisecond}
	writer.Completion = func(_ []kafka.Message, err error) {
		if err != nil {
			log.Print("not sent: ", err)
			if mode != "at-most-once" {
				os.Exit(1)
			}
		}
	}
	switch mode {
	case "at-most-once":
		writer.RequiredAcks, writer.MaxAttempts = kafka.RequireOne, 1
	case "at-least-once":
		writer.RequiredAcks = kafka.RequireAll
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := writer.WriteMessages(ctx, kafka.Message{Value: []byte(lines.Text())}); err != nil {
			log.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		log.Fatal(err)
	}
}
