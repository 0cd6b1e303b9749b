package main

import "github.com/IBM/sarama"

func transactional(config *sarama.Config, id string) {
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = id
	config.Net.MaxOpenRequests = 1
}

// handOn sends what it was given, and saves its position, in one transaction: a producer has one at
// a time, and each partition is read by a goroutine of its own.
func (r reader) handOn(message *sarama.ConsumerMessage) {
	r.one.Lock()
	defer r.one.Unlock()
	check(r.producer.BeginTxn())
	r.producer.Input() <- &sarama.ProducerMessage{Topic: "priced", Value: sarama.ByteEncoder(message.Value)}
	check(r.producer.AddMessageToTxn(message, "pricing", nil))
	check(r.producer.CommitTxn())
}

func told(producer sarama.AsyncProducer) {
	for failed := range producer.Errors() {
		check(failed.Err)
	}
}
