import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 2, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class OrdersTest {
    // With Testcontainers, instead of the variable KAFKA:
    //   @Container
    //   static final KafkaContainer KAFKA = new KafkaContainer("apache/kafka:4.0.0");
    // and its address is KAFKA.getBootstrapServers()
    private static final String KAFKA = System.getenv("KAFKA");
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private static String route;
    private static String bootstrap;

    @BeforeAll
    static void standBefore() throws Exception {
        String added = ask("POST", "/routes", "{\"upstream\": \"" + KAFKA + "\"}");
        route = text(added, "route");
        bootstrap = text(added, "bootstrap");
    }

    @Test
    void anIdempotentProducerStoresAnOrderOnce() throws Exception {
        assertEquals(List.of(16, 17, 18), ordersWithALostAnswer(true));
    }

    @Test
    void anotherOneStoresItTwice() throws Exception {
        assertEquals(List.of(16, 17, 17, 18), ordersWithALostAnswer(false));
    }

    private static List<Integer> ordersWithALostAnswer(boolean idempotent) throws Exception {
        String topic = "orders-" + UUID.randomUUID();
        try (var fault = new Fault("""
                {"do": "lose", "api": "Produce", "answer": true,
                 "topic": "%s", "record": {"order": 17}, "route": "%s"}
                """.formatted(topic, route))) {
            Orders.place(bootstrap, topic, List.of(16, 17, 18), idempotent);
            return Orders.read(bootstrap, topic, 18);
        }
    }

    /** A fault until the end of its block, which fails if it has not struck. */
    private static final class Fault implements AutoCloseable {
        private final String id;

        Fault(String asked) throws Exception {
            id = text(ask("POST", "/faults", asked), "id");
        }

        @Override
        public void close() throws Exception {
            ask("DELETE", "/faults/" + id, "");
        }
    }

    /** Sends a request to the API of a `lostack proxy` that stands already; what is no success fails. */
    private static String ask(String method, String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("LOSTACK_PROXY") + path))
                .header("Authorization", "Bearer " + System.getenv("LOSTACK_PROXY_SECRET"))
                .method(method, BodyPublishers.ofString(body))
                .build();
        var answer = HTTP.send(request, BodyHandlers.ofString());
        assertTrue(answer.statusCode() < 300, answer.body());
        return answer.body();
    }

    private static String text(String json, String name) {
        var found = Pattern.compile("\"" + name + "\": \"([^\"]*)\"").matcher(json);
        assertTrue(found.find(), json);
        return found.group(1);
    }
}
