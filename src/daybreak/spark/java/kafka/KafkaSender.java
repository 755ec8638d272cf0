package daybreak.kafka;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Unpacks the rows of a delivery, which cross to the JVM in one call, and sends them. */
public class KafkaSender {
    /** Returns when the broker has acknowledged all rows, counted from {@code first}. */
    public void send(
        KafkaProducer<byte[], byte[]> producer, String topic, byte[] rows, String query, String job,
        int first
    ) throws Exception {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(rows));
        List<Future<?>> sent = new ArrayList<>();
        for (int row = first; in.available() > 0; row++) {
            ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(topic, field(in), field(in));
            record.headers().add("daybreak-query", bytes(query));
            record.headers().add("daybreak-job", bytes(job));
            record.headers().add("daybreak-row", bytes(Integer.toString(row)));
            sent.add(producer.send(record));
        }
        producer.flush();
        for (Future<?> one : sent) {
            one.get();
        }
    }

    /** The key or the value that comes next, which stands behind its length; -1: null. */
    private static byte[] field(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 0) {
            return null;
        }
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
