mod reading;
mod writing;

use rdkafka::config::ClientConfig;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", std::env::var("BOOTSTRAP_SERVERS").unwrap());
    match arguments[1].as_str() {
        "producer" => writing::produce(settings, &arguments[2]),
        "consumer" => reading::consume(settings, &arguments[2]),
        _ => reading::process(settings),
    }
}
