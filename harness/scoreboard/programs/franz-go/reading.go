package main

import (
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kgo"
)

func consume(ctx context.Context, mode string, options []kgo.Opt) {
	switch mode {
	case "at-most-once", "at-least-once":
		options = append(options, kgo.DisableAutoCommit())
	case "kip-848":
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	check(err)
	for {
		fetched := client.PollFetches(ctx)
		fetched.EachError(func(_ string, _ int32, err error) { log.Print("not read: ", err) })
		fetched.EachRecord(func(record *kgo.Record) {
			if mode == "at-most-once" {
				check(client.CommitRecords(ctx, record))
			}
			fmt.Println(string(record.Value))
			if mode == "at-least-once" {
				check(client.CommitRecords(ctx, record))
			}
		})
	}
}

func process(ctx context.Context, seeds kgo.Opt) {
	session, err := kgo.NewGroupTransactSession(seeds, kgo.TransactionalID("pricing"),
		kgo.ConsumerGroup("pricing"), kgo.ConsumeTopics("orders"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets())
	check(err)
	for {
		fetched := session.PollFetches(ctx)
		fetched.EachError(func(_ string, _ int32, err error) { log.Print("not read: ", err) })
		if fetched.NumRecords() == 0 {
			continue
		}
		check(session.Begin())
		promise := kgo.AbortingFirstErrPromise(session.Client())
		fetched.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: "priced", Value: record.Value}, promise.Promise())
		})
		_, err := session.End(ctx, promise.Err() == nil)
		check(err)
	}
}
