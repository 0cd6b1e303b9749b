package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/IBM/sarama"
)

type reader struct {
	mode     string
	producer sarama.AsyncProducer
	one      *sync.Mutex
}

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		if r.producer != nil {
			r.handOn(message)
			continue
		}
		if r.mode == "at-most-once" {
			session.MarkMessage(message, "")
			session.Commit()
		}
		fmt.Println(string(message.Value))
		session.MarkMessage(message, "")
		if r.mode == "at-least-once" {
			session.Commit()
		}
	}
	return nil
}

func consume(role, mode string, config *sarama.Config) {
	servers, handler, name := []string{os.Getenv("BOOTSTRAP_SERVERS")}, reader{mode: mode}, "billing"
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = mode == "as-it-comes"
	if role == "processor" {
		name, config.Consumer.IsolationLevel = "pricing", sarama.ReadCommitted
		transactional(config, "pricing")
		producer, err := sarama.NewAsyncProducer(servers, config)
		check(err)
		go told(producer)
		handler.producer, handler.one = producer, &sync.Mutex{}
	}
	group, err := sarama.NewConsumerGroup(servers, name, config)
	check(err)
	for {
		check(group.Consume(context.Background(), []string{"orders"}, handler))
	}
}
