use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(60);

fn subscribed(settings: &mut ClientConfig, group: &str) -> BaseConsumer {
    settings.set("group.id", group).set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = settings.create().unwrap();
    consumer.subscribe(&["orders"]).unwrap();
    consumer
}

fn each(consumer: &BaseConsumer, work: impl Fn(BorrowedMessage<'_>)) {
    for result in consumer.iter() {
        match result {
            Ok(message) => work(message),
            Err(error) => eprintln!("{error}"),
        }
    }
}

/// Prints every record of a topic.
pub fn consume(mut settings: ClientConfig, mode: &str) {
    match mode {
        "as-it-comes" => &mut settings,
        "kip-848" => settings.set("group.protocol", "consumer"),
        _ => settings.set("enable.auto.commit", "false"),
    };
    let consumer = subscribed(&mut settings, "billing");
    each(&consumer, |message| {
        if mode == "at-most-once" {
            consumer.commit_message(&message, CommitMode::Sync).unwrap();
        }
        println!("{}", message.payload_view::<str>().unwrap().unwrap());
        if mode == "at-least-once" {
            consumer.commit_message(&message, CommitMode::Sync).unwrap();
        }
    });
}

/// Copies every record to another topic, in one transaction with its position.
pub fn process(mut settings: ClientConfig) {
    let producer: BaseProducer = settings.clone().set("transactional.id", "pricing").create().unwrap();
    producer.init_transactions(WITHIN).unwrap();
    settings.set("enable.auto.commit", "false").set("isolation.level", "read_committed");
    let consumer = subscribed(&mut settings, "pricing");
    each(&consumer, |message| {
        let group = consumer.group_metadata().unwrap();
        producer.begin_transaction().unwrap();
        let record = BaseRecord::<(), [u8]>::to("priced").payload(message.payload().unwrap());
        producer.send(record).map_err(|(error, _)| error).unwrap();
        let positions = consumer.position().unwrap();
        producer.send_offsets_to_transaction(&positions, &group, WITHIN).unwrap();
        producer.commit_transaction(WITHIN).unwrap();
    });
}
