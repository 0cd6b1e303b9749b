package lostack;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * The Java client of Pulsar of one stage program. Every call that waits for a broker has a time-out, in milliseconds.
 */
public final class PulsarBridge extends Calls {
    private PulsarBridge() {}

    public static void main(String[] words) throws Exception {
        new PulsarBridge().serve();
    }

    @Override
    String call(String[] words) throws Exception {
        switch (words[0]) {
            case "client":
                ClientBuilder builder = PulsarClient.builder().serviceUrl(words[1]).description(words[2])
                        .operationTimeout(Integer.parseInt(words[3]), TimeUnit.MILLISECONDS)
                        .startingBackoffInterval(50, TimeUnit.MILLISECONDS).maxBackoffInterval(500, TimeUnit.MILLISECONDS)
                        .enableTransaction(Boolean.parseBoolean(words[4]));
                return added(within(words[5], builder::build));
            case "producer":
                return producer(words);
            case "consumer":
                return consumer(words);
            case "send":
                return send(words);
            case "wait":
                return "\t" + place((MessageId) answer(words[1], words[2]));
            case "receive":
                return receive(words);
            case "ack":
                return acknowledge(words);
            case "refuse":
                ((Consumer<?>) things.get(words[1])).negativeAcknowledge((Message<?>) things.remove(words[2]));
                return "";
            case "begin":
                return added(((PulsarClient) things.get(words[1])).newTransaction()
                        .withTransactionTimeout(Long.parseLong(words[2]), TimeUnit.MILLISECONDS)
                        .build().get(Long.parseLong(words[3]), TimeUnit.MILLISECONDS));
            case "commit":
                return waited(((Transaction) things.remove(words[1])).commit(), words[2]);
            case "abort":
                return waited(((Transaction) things.remove(words[1])).abort(), words[2]);
            case "close":
                return waited(((PulsarClient) things.remove(words[1])).closeAsync(), words[2]);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** {@code producer CLIENT TOPIC NAME SEND_TIMEOUT UNIT LINGER PART_BYTES}. */
    private String producer(String[] words) throws Exception {
        int unit = Integer.parseInt(words[5]);
        ProducerBuilder<byte[]> builder = ((PulsarClient) things.get(words[1])).newProducer(Schema.BYTES).topic(words[2])
                .sendTimeout(Integer.parseInt(words[4]), TimeUnit.MILLISECONDS).blockIfQueueFull(true)
                .enableBatching(unit > 1);
        if (unit > 1) {
            builder.batchingMaxMessages(unit).batchingMaxPublishDelay(Long.parseLong(words[6]), TimeUnit.MILLISECONDS);
        }
        if (!words[7].equals("-")) {
            builder.enableChunking(true).chunkMaxMessageSize(Integer.parseInt(words[7]));
        }
        return added(words[3].equals("-") ? builder.create() : builder.producerName(words[3]).create());
    }

    /** {@code consumer CLIENT TOPIC SUBSCRIPTION TYPE QUEUE_SIZE NAME RECEIPTS}. */
    private String consumer(String[] words) throws Exception {
        boolean receipts = Boolean.parseBoolean(words[7]);
        return added(((PulsarClient) things.get(words[1])).newConsumer(Schema.BYTES).topic(words[2])
                .subscriptionName(words[3]).subscriptionType(SubscriptionType.valueOf(words[4]))
                .receiverQueueSize(Integer.parseInt(words[5])).consumerName(words[6])
                .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS)
                .maxPendingChunkedMessage(1).autoAckOldestChunkedMessageOnQueueFull(true)
                .isAckReceiptEnabled(receipts).acknowledgmentGroupTime(receipts ? 0 : 100, TimeUnit.MILLISECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe());
    }

    /** {@code send PRODUCER TRANSACTION SEQUENCE KEY VALUE [PROPERTY VALUE]...}. */
    @SuppressWarnings("unchecked")
    private String send(String[] words) {
        Producer<byte[]> producer = (Producer<byte[]>) things.get(words[1]);
        TypedMessageBuilder<byte[]> message =
                words[2].equals("-") ? producer.newMessage() : producer.newMessage((Transaction) things.get(words[2]));
        message.value(decoded(words[5]));
        if (!words[3].equals("-")) {
            message.sequenceId(Long.parseLong(words[3]));
        }
        if (!words[4].equals("-")) {
            message.key(new String(decoded(words[4]), StandardCharsets.UTF_8));
        }
        for (int i = 6; i < words.length; i += 2) {
            message.property(words[i], new String(decoded(words[i + 1]), StandardCharsets.UTF_8));
        }
        return added(message.sendAsync());
    }

    /** Wait for a message; of one, how it is acknowledged, its place, how often it was given before, its key and its bytes. */
    private String receive(String[] words) throws Exception {
        Message<?> message = ((Consumer<?>) things.get(words[1])).receive(Integer.parseInt(words[2]), TimeUnit.MILLISECONDS);
        if (message == null) {
            return "";
        }
        byte[] key = message.hasKey() ? message.getKey().getBytes(StandardCharsets.UTF_8) : null;
        return added(message) + "\t" + place(message.getMessageId()) + "\t" + message.getRedeliveryCount() + "\t" + coded(key)
                + "\t" + coded(message.getData());
    }

    /** {@code ack CONSUMER MESSAGE TRANSACTION CUMULATIVE WITHIN}. */
    private String acknowledge(String[] words) throws Exception {
        Consumer<?> consumer = (Consumer<?>) things.get(words[1]);
        MessageId id = ((Message<?>) things.get(words[2])).getMessageId();
        Transaction transaction = words[3].equals("-") ? null : (Transaction) things.get(words[3]);
        CompletableFuture<Void> done;
        if (Boolean.parseBoolean(words[4])) {
            done = transaction == null ? consumer.acknowledgeCumulativeAsync(id)
                    : consumer.acknowledgeCumulativeAsync(id, transaction);
        } else {
            done = transaction == null ? consumer.acknowledgeAsync(id) : consumer.acknowledgeAsync(id, transaction);
        }
        waited(done, words[5]);
        things.remove(words[2]); // one that is not acknowledged can be refused
        return "";
    }

    private static String place(MessageId id) {
        MessageIdAdv found = (MessageIdAdv) id;
        return found.getLedgerId() + ":" + found.getEntryId() + ":" + Math.max(found.getBatchIndex(), 0);
    }

    private Object answer(String number, String withinMs) throws Exception {
        return ((CompletableFuture<?>) things.remove(number)).get(Long.parseLong(withinMs), TimeUnit.MILLISECONDS);
    }

    /**
     * Do what waits by a clock of its own, or by none, and give it up when its time is over: a client with transactions waits
     * for the coordinator while it is made, in older libraries for ever where that refuses it.
     */
    private static <T> T within(String ms, Callable<T> work) throws Exception {
        FutureTask<T> task = new FutureTask<>(work);
        Thread thread = new Thread(task, "within");
        thread.setDaemon(true);
        thread.start();
        try {
            return task.get(Long.parseLong(ms), TimeUnit.MILLISECONDS);
        } finally {
            task.cancel(true);
        }
    }

    private static String waited(CompletableFuture<?> done, String withinMs) throws Exception {
        done.get(Long.parseLong(withinMs), TimeUnit.MILLISECONDS);
        return "";
    }

}
