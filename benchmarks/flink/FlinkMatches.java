import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Counts the matches of one workload by Flink CEP, once for each line of standard input.
 *
 * <p>Usage: FlinkMatches WORKLOAD EVENTS. The file of events has their number, then four columns of as many 64-bit
 * words, little-endian: time in milliseconds, type or key, value, volume. Each run is answered by a line of JSON: the
 * matches, and the seconds of the processor, of all threads, from the first event to the last match.
 */
public final class FlinkMatches {
    /** An event; the value is that by which its workload compares. */
    public static final class Event {
        public long time;
        public int type;
        public long value;
        public long volume;

        public Event() {}
    }

    /** A condition between an event and those that are bound. */
    private interface Accepts extends java.io.Serializable {
        boolean test(Event event, IterativeCondition.Context<Event> bound) throws Exception;
    }

    // Flink runs in this process, one run at a time: its functions find and leave here what belongs to a run.
    private static Event[] events;
    private static long matches;
    private static long startedNs;
    private static long endedNs;

    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] arguments) throws Exception {
        events = read(Path.of(arguments[1]));
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        while (asked.readLine() != null) {
            System.gc();
            run(arguments[0]);
            double seconds = (endedNs - startedNs) / 1e9;
            System.out.printf("{\"seconds\": %.6f, \"matches\": %d}%n", seconds, matches);
        }
    }

    private static Event[] read(Path file) throws Exception {
        try (FileChannel channel = FileChannel.open(file)) {
            ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            LongBuffer words = bytes.order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
            int count = (int) words.get(0);
            Event[] read = new Event[count];
            for (int place = 0; place < count; place++) {
                Event event = new Event();
                event.time = words.get(1 + place);
                event.type = (int) words.get(1 + count + place);
                event.value = words.get(1 + 2 * count + place);
                event.volume = words.get(1 + 3 * count + place);
                read[place] = event;
            }
            return read;
        }
    }

    private static void run(String workload) throws Exception {
        matches = 0;
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.getConfig().enableObjectReuse();
        DataStream<Event> stream =
                environment
                        .fromSequence(0, events.length - 1)
                        .map(FlinkMatches::event)
                        .returns(TypeInformation.of(Event.class))
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<Event>forMonotonousTimestamps()
                                        .withTimestampAssigner((event, before) -> event.time));
        if (workload.equals("W5") || workload.equals("W7")) {
            stream = stream.keyBy(event -> event.type);
        } else {
            Set<Integer> types = types(workload);
            stream = stream.filter(event -> types.contains(event.type));
        }
        CEP.pattern(stream, pattern(workload)).process(new Counting()).sinkTo(new DiscardingSink<>());
        environment.execute();
    }

    private static Event event(long place) {
        if (place == 0) {
            startedNs = PROCESS.getProcessCpuTime();
        }
        return events[(int) place];
    }

    /** Counts matches, and notes the time at the end of the stream. */
    private static final class Counting extends PatternProcessFunction<Event, Long> {
        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Long> out) {
            matches++;
        }

        @Override
        public void close() {
            endedNs = PROCESS.getProcessCpuTime();
        }
    }

    /** The types that occur in a pattern: events of others would only be tested in vain. */
    private static Set<Integer> types(String workload) {
        switch (workload) {
            case "W1":
                return Set.of(0, 7, 15);
            case "W2":
                return Set.of(5, 8, 11, 14);
            case "W3":
                return Set.of(2, 12, 6, 13);
            default:
                return Set.of(8, 10, 12);
        }
    }

    private static Pattern<Event, ?> pattern(String workload) {
        switch (workload) {
            case "W1":
                return Pattern.<Event>begin("a").where(type(0))
                        .followedByAny("b").where(type(7, (b, bound) -> value(bound, "a") < b.value))
                        .followedByAny("c").where(type(15, (c, bound) -> value(bound, "b") < c.value))
                        .within(window(2000));
            case "W2":
                return Pattern.<Event>begin("1").where(where((event, bound) -> joins(event, bound, 0)))
                        .followedByAny("2").where(where((event, bound) -> joins(event, bound, 1)))
                        .followedByAny("3").where(where((event, bound) -> joins(event, bound, 2)))
                        .followedByAny("4").where(where((event, bound) -> joins(event, bound, 3)))
                        .within(window(500));
            case "W3":
                return Pattern.<Event>begin("a").where(type(2))
                        .notFollowedBy("b").where(type(12, (b, bound) -> b.value < value(bound, "a")))
                        .followedByAny("c").where(type(6, (c, bound) -> value(bound, "a") < c.value))
                        .followedByAny("d").where(type(13, (d, bound) -> value(bound, "c") < d.value))
                        .within(window(1500));
            case "W4":
                return Pattern.<Event>begin("a").where(type(8))
                        .followedByAny("b").where(type(10)).oneOrMore().allowCombinations()
                        .followedByAny("c").where(type(12, (c, bound) -> value(bound, "a") < c.value))
                        .within(window(700));
            case "W4b":
                return Pattern.<Event>begin("a").where(type(8))
                        .followedByAny("b").where(type(10, FlinkMatches::rises)).oneOrMore().allowCombinations()
                        .followedByAny("c").where(type(12, (c, bound) -> value(bound, "a") < c.value))
                        .within(window(1500));
            case "W5":
                return Pattern.<Event>begin("a").where(where(FlinkMatches::risesFrom500)).oneOrMore().consecutive()
                        .next("b").where(where((b, bound) -> b.volume < 150))
                        .within(window(500));
            case "W7":
                return Pattern.<Event>begin("a").where(where((a, bound) -> true))
                        .followedByAny("b").where(where((b, bound) -> value(bound, "a") > b.value))
                        .followedByAny("c").where(where((c, bound) -> value(bound, "b") > c.value))
                        .within(window(900_000));
            default:
                throw new IllegalArgumentException(workload + " is no workload of Flink CEP");
        }
    }

    /** Both ends of a window belong to it; Flink's lacks the end. */
    private static Duration window(long milliseconds) {
        return Duration.ofMillis(milliseconds + 1);
    }

    private static IterativeCondition<Event> where(Accepts accepts) {
        return new IterativeCondition<>() {
            @Override
            public boolean filter(Event event, Context<Event> bound) throws Exception {
                return accepts.test(event, bound);
            }
        };
    }

    private static IterativeCondition<Event> type(int type) {
        return where((event, bound) -> event.type == type);
    }

    private static IterativeCondition<Event> type(int type, Accepts accepts) {
        return where((event, bound) -> event.type == type && accepts.test(event, bound));
    }

    private static long value(IterativeCondition.Context<Event> bound, String name) throws Exception {
        return bound.getEventsForPattern(name).iterator().next().value;
    }

    private static Event last(IterativeCondition.Context<Event> bound, String name) throws Exception {
        Event last = null;
        for (Event event : bound.getEventsForPattern(name)) {
            last = event;
        }
        return last;
    }

    private static boolean rises(Event event, IterativeCondition.Context<Event> bound) throws Exception {
        Event before = last(bound, "b");
        return before == null || event.value > before.value;
    }

    private static boolean risesFrom500(Event event, IterativeCondition.Context<Event> bound) throws Exception {
        Event before = last(bound, "a");
        return before == null ? event.value % 500 == 0 : event.value > before.value;
    }

    /** W2 in any order: a type that is not bound yet, and what the condition of its pair asks of the other one. */
    private static boolean joins(Event event, IterativeCondition.Context<Event> bound, int before) throws Exception {
        int type = event.type;
        if (type != 5 && type != 8 && type != 11 && type != 14) {
            return false;
        }
        for (int place = 1; place <= before; place++) {
            Event other = bound.getEventsForPattern(String.valueOf(place)).iterator().next();
            if (other.type == type) {
                return false;
            }
            boolean pair = other.type + type == 13 || other.type + type == 25;
            if (pair && (other.type < type ? other.value >= event.value : event.value >= other.value)) {
                return false;
            }
        }
        return true;
    }
}
