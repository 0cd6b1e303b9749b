use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::ClientContext;
use std::time::Duration;

struct Told {
    goes_on: bool,
}

impl ClientContext for Told {}

impl ProducerContext for Told {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        if let Err((error, _)) = result {
            eprintln!("not sent: {error}");
            if !self.goes_on {
                std::process::exit(1);
            }
        }
    }
}

/// Sends each line of standard input to a topic.
pub fn produce(mut settings: ClientConfig, mode: &str) {
    match mode {
        "at-most-once" => settings.set("acks", "1").set("retries", "0"),
        "at-least-once" => settings.set("acks", "all").set("enable.idempotence", "false"),
        _ => &mut settings,
    };
    let told = Told { goes_on: mode == "at-most-once" };
    let producer: ThreadedProducer<Told> = settings.create_with_context(told).unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let record = BaseRecord::<(), str>::to("orders").payload(&line);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(Duration::from_secs(600)).unwrap();
}
