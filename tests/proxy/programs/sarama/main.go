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
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type order struct {
	Order int `json:"order"`
}

// reader is told of the records of each partition, at once.
type reader struct {
	count int
	done  context.CancelFunc
	mutex sync.Mutex
	found []int
	seen  map[int]bool
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		var each order
		if err := json.Unmarshal(message.Value, &each); err != nil {
			return err
		}
		session.MarkMessage(message, "")
		r.mutex.Lock()
		r.found = append(r.found, each.Order)
		r.seen[each.Order] = true
		if len(r.seen) == r.count {
			r.done()
		}
		r.mutex.Unlock()
	}
	return nil
}

func main() {
	bootstrap, topic, idempotent := os.Args[1], os.Args[2], os.Args[4] == "true"
	count, err := strconv.Atoi(os.Args[3])
	check(err)
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	check(err)
	for number := range count {
		value, err := json.Marshal(order{number})
		check(err)
		_, _, err = producer.SendMessage(&sarama.ProducerMessage{
			Topic: topic,
			Key:   sarama.StringEncoder(strconv.Itoa(number)),
			Value: sarama.ByteEncoder(value),
		})
		check(err)
	}
	check(producer.Close())
	group, err := sarama.NewConsumerGroup([]string{bootstrap}, "group-"+topic, config)
	check(err)
	limit, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	ctx, done := context.WithCancel(limit)
	found := &reader{count: count, done: done, seen: map[int]bool{}}
	for ctx.Err() == nil {
		check(group.Consume(ctx, []string{topic}, found))
	}
	check(limit.Err())
	check(group.Close())
	told, err := json.Marshal(found.found)
	check(err)
	fmt.Println(string(told))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
