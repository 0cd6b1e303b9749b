// Sends orders one behind the other, and reads them as a group: BOOTSTRAP TOPIC COUNT IDEMPOTENT.
// Prints the orders that were read, as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type order struct {
	Order int `json:"order"`
}

func main() {
	bootstrap, topic, idempotent := os.Args[1], os.Args[2], os.Args[4] == "true"
	count, err := strconv.Atoi(os.Args[3])
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic)}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	producer, err := kgo.NewClient(options...)
	check(err)
	for number := range count {
		value, err := json.Marshal(order{number})
		check(err)
		record := &kgo.Record{Key: []byte(strconv.Itoa(number)), Value: value}
		check(producer.ProduceSync(ctx, record).FirstErr())
	}
	producer.Close()
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup("group-"+topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	check(err)
	var found []int
	for seen := map[int]bool{}; len(seen) < count; {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		for _, record := range fetches.Records() {
			var each order
			check(json.Unmarshal(record.Value, &each))
			found = append(found, each.Order)
			seen[each.Order] = true
		}
	}
	check(consumer.CommitUncommittedOffsets(ctx))
	consumer.Close()
	told, err := json.Marshal(found)
	check(err)
	fmt.Println(string(told))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
