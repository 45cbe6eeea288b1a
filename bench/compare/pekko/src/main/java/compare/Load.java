package compare;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.HdrHistogram.ConcurrentHistogram;

/** The commands of a caller: see load.go, which measures the same. */
final class Load {
  private static final int PAYLOAD = 100;
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final Duration TOTAL_PATIENCE = Duration.ofMillis(100);
  private static final Duration WATCH_PATIENCE = Duration.ofMillis(500);
  private static final long WATCH_EVERY_MS = 10;

  private final Entities entities;

  Load(Entities entities) {
    this.entities = entities;
  }

  private static byte[] payload(char op) {
    byte[] b = new byte[PAYLOAD];
    b[0] = (byte) op;
    return b;
  }

  private byte[] await(int id, char op, Duration limit) throws Exception {
    return entities.ask(id, payload(op), limit).toCompletableFuture().get();
  }

  private static double secondsSince(long nanos) {
    return (System.nanoTime() - nanos) / 1e9;
  }

  private static String json(String format, Object... args) {
    return String.format(Locale.ROOT, format, args);
  }

  String start(int n) throws Exception {
    long began = System.nanoTime();
    for (int id = 0; id < n; id++) {
      for (; ; ) {
        try {
          await(id, 'e', PATIENCE);
          break;
        } catch (Exception e) {
          if (secondsSince(began) > 60) {
            throw e;
          }
        }
      }
    }
    return json("{\"count\":%d,\"seconds\":%f}", n, secondsSince(began));
  }

  /** Callers are chains of questions, each begun by the last answer: no thread waits for one. */
  String askFor(int callers, int seconds) throws Exception {
    ConcurrentHistogram took = new ConcurrentHistogram(100, 60_000_000_000L, 3);
    AtomicLong failed = new AtomicLong();
    CountDownLatch ended = new CountDownLatch(callers);
    long began = System.nanoTime();
    long end = began + seconds * 1_000_000_000L;
    for (int c = 0; c < callers; c++) {
      ask(c, callers, payload('e'), end, took, failed, ended);
    }
    ended.await();
    return json(
        "{\"count\":%d,\"failed\":%d,\"seconds\":%f,\"p50_us\":%f,\"p99_us\":%f}",
        took.getTotalCount(),
        failed.get(),
        secondsSince(began),
        took.getValueAtPercentile(50) / 1e3,
        took.getValueAtPercentile(99) / 1e3);
  }

  private void ask(
      int id,
      int step,
      byte[] payload,
      long end,
      ConcurrentHistogram took,
      AtomicLong failed,
      CountDownLatch ended) {
    long at = System.nanoTime();
    if (at >= end) {
      ended.countDown();
      return;
    }
    entities
        .ask(id % Entities.COUNT, payload, PATIENCE)
        .whenCompleteAsync(
            (answer, error) -> {
              if (error != null || answer.length != PAYLOAD) {
                failed.incrementAndGet();
              } else {
                took.recordValue(System.nanoTime() - at);
              }
              ask(id + step, step, payload, end, took, failed, ended);
            },
            Runnable::run);
  }

  private long total() throws Exception {
    long sum = 0;
    for (int id = 0; id < Entities.COUNT; id++) {
      sum += total(id);
    }
    return sum;
  }

  /** Asks again and again for a minute: questions behind a flood are dropped. */
  private long total(int id) throws Exception {
    for (int tries = 1; ; tries++) {
      try {
        return Long.parseLong(new String(await(id, 't', TOTAL_PATIENCE), StandardCharsets.UTF_8));
      } catch (Exception e) {
        if (tries == 600) {
          throw e;
        }
      }
    }
  }

  String tellAll(int senders, int messages) throws Exception {
    long before = total();
    long began = System.nanoTime();
    List<Thread> threads = new ArrayList<>();
    for (int s = 0; s < senders; s++) {
      int first = s;
      Thread t =
          new Thread(
              () -> {
                byte[] b = payload('c');
                for (int i = first; i < messages; i += senders) {
                  entities.tell(i % Entities.COUNT, b);
                }
              });
      threads.add(t);
      t.start();
    }
    for (Thread t : threads) {
      t.join();
    }
    long handled = total() - before;
    return json(
        "{\"count\":%d,\"failed\":%d,\"seconds\":%f}",
        handled, messages - handled, secondsSince(began));
  }

  String watchFor(int n, int seconds) throws Exception {
    long end = System.nanoTime() + seconds * 1_000_000_000L;
    String[] waits = new String[n];
    List<Thread> threads = new ArrayList<>();
    for (int id = 0; id < n; id++) {
      int own = id;
      Thread t = new Thread(() -> waits[own] = watch(own, end));
      threads.add(t);
      t.start();
    }
    for (Thread t : threads) {
      t.join();
    }
    return "{\"waits\":[" + String.join(",", waits) + "]}";
  }

  private String watch(int id, long end) {
    String first = "";
    String last = "";
    int failed = 0;
    double longest = 0;
    long at = System.nanoTime();
    while (System.nanoTime() < end) {
      try {
        last = new String(await(id, 'h', WATCH_PATIENCE), StandardCharsets.UTF_8);
        long now = System.nanoTime();
        if (first.isEmpty()) {
          first = last;
        } else {
          longest = Math.max(longest, (now - at) / 1e6);
        }
        at = now;
        Thread.sleep(WATCH_EVERY_MS);
      } catch (InterruptedException e) {
        break;
      } catch (Exception e) {
        failed++;
      }
    }
    return json(
        "{\"first\":\"%s\",\"last\":\"%s\",\"ms\":%f,\"failed\":%d}", first, last, longest, failed);
  }
}
