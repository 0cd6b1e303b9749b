// Package orders sends orders to a topic, and reads them.
package orders

import (
	"context"
	"encoding/json"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Order is what stands in the value of a record.
type Order struct {
	Order int `json:"order"`
}

// Place sends orders one behind the other, and returns when the broker has confirmed the last one.
func Place(ctx context.Context, broker, topic string, numbers []int, options ...kgo.Opt) error {
	client, err := kgo.NewClient(append(options,
		kgo.SeedBrokers(broker),
		kgo.DefaultProduceTopic(topic),
		kgo.AllowAutoTopicCreation())...)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, number := range numbers {
		value, err := json.Marshal(Order{number})
		if err != nil {
			return err
		}
		if err := client.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// Read returns the orders of a topic, in order, up to the one called last.
func Read(ctx context.Context, broker, topic string, last int) ([]int, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(broker),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup("orders-"+topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var found []int
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return found, err
		}
		for _, record := range fetches.Records() {
			var order Order
			if err := json.Unmarshal(record.Value, &order); err != nil {
				return found, err
			}
			found = append(found, order.Order)
			if order.Order == last {
				return found, client.CommitUncommittedOffsets(ctx)
			}
		}
	}
}
