package main

import "github.com/IBM/sarama"

func transactional(config *sarama.Config, id string) {
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = id
	config.Net.MaxOpenRequests = 1
}
