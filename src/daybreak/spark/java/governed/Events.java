package daybreak.governed;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The queue of what Python is to hear. */
class Events {
    private final LinkedBlockingQueue<Map<String, Object>> events = new LinkedBlockingQueue<>();
    private final ObjectMapper json = new ObjectMapper();

    static Map<String, Object> event(String kind, Object run) {
        Map<String, Object> event = new HashMap<>();
        event.put("kind", kind);
        event.put("run", String.valueOf(run));
        return event;
    }

    void tell(Map<String, Object> event) {
        events.add(event);
    }

    /** What has happened, as a JSON array; waits so long for the first event. */
    String poll(long ms) throws Exception {
        List<Map<String, Object>> found = new ArrayList<>();
        Map<String, Object> first = (Map<String, Object>) events.poll(ms, TimeUnit.MILLISECONDS);
        if (first != null) {
            found.add(first);
        }
        events.drainTo(found);
        return found.isEmpty() ? "[]" : text(found);
    }

    String text(Object event) throws JsonProcessingException {
        return json.writeValueAsString(event);
    }
}
