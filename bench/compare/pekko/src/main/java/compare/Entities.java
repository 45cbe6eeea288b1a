package compare;

import com.typesafe.config.Config;
import com.typesafe.config.ConfigFactory;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletionStage;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.AbstractBehavior;
import org.apache.pekko.actor.typed.javadsl.ActorContext;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.actor.typed.javadsl.Receive;
import org.apache.pekko.cluster.MemberStatus;
import org.apache.pekko.cluster.sharding.typed.javadsl.ClusterSharding;
import org.apache.pekko.cluster.sharding.typed.javadsl.Entity;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityRef;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityTypeKey;
import org.apache.pekko.cluster.typed.Cluster;

/** The entities of one node, and the calls that a caller makes by their ids. */
final class Entities {
  static final int COUNT = 1000;
  private static final EntityTypeKey<Request> KEY = EntityTypeKey.create(Request.class, "entity");

  private final ActorSystem<Void> system;
  private final List<EntityRef<Request>> refs = new ArrayList<>();

  Entities(String role, String listen, String[] peers) throws InterruptedException {
    system = ActorSystem.create(Behaviors.empty(), "compare", config(role, listen, peers));
    ClusterSharding sharding = ClusterSharding.get(system);
    sharding.init(Entity.of(KEY, context -> Counter.create(listen)).withRole("home"));
    for (int id = 0; id < COUNT; id++) {
      refs.add(sharding.entityRefFor(KEY, "entity-" + id));
    }
    Cluster cluster = Cluster.get(system);
    while (upMembers(cluster) < peers.length) {
      Thread.sleep(50);
    }
  }

  private static long upMembers(Cluster cluster) {
    long up = 0;
    for (var member : cluster.state().getMembers()) {
      if (member.status().equals(MemberStatus.up())) {
        up++;
      }
    }
    return up;
  }

  /**
   * Settings beside the defaults: the transport over TCP, the resolver of partitions that the
   * manual asks for, entities that stay (as those of the other systems do), and a serializer
   * for the messages.
   */
  private static Config config(String role, String listen, String[] peers) {
    StringBuilder seeds = new StringBuilder();
    for (String peer : peers) {
      seeds.append('"').append("pekko://compare@").append(peer).append("\",");
    }
    String host = listen.substring(0, listen.lastIndexOf(':'));
    String port = listen.substring(listen.lastIndexOf(':') + 1);
    return ConfigFactory.parseString(
            String.join(
                "\n",
                "pekko.actor.provider = cluster",
                "pekko.remote.artery.transport = tcp",
                "pekko.remote.artery.canonical.hostname = \"" + host + "\"",
                "pekko.remote.artery.canonical.port = " + port,
                "pekko.cluster.seed-nodes = [" + seeds + "]",
                "pekko.cluster.roles = [" + (role.equals("caller") ? "caller" : "home") + "]",
                "pekko.cluster.downing-provider-class ="
                    + " org.apache.pekko.cluster.sbr.SplitBrainResolverProvider",
                "pekko.cluster.sharding.passivation.strategy = none",
                "pekko.cluster.shutdown-after-unsuccessful-join-seed-nodes = off",
                "pekko.coordinated-shutdown.exit-jvm = off",
                "pekko.actor.serializers.compare = \"compare.MessageSerializer\"",
                "pekko.actor.serialization-bindings {\"compare.Message\" = compare}",
                "pekko.loglevel = WARNING"))
        .withFallback(ConfigFactory.load());
  }

  CompletionStage<byte[]> ask(int id, byte[] payload, Duration limit) {
    return refs.get(id)
        .<Answer>ask(replyTo -> new Request(payload, replyTo), limit)
        .thenApply(Answer::payload);
  }

  void tell(int id, byte[] payload) {
    refs.get(id).tell(new Request(payload, null));
  }

  void close() {
    system.terminate();
  }

  /** What the entities of the other systems do: see handler in node.go. */
  static final class Counter extends AbstractBehavior<Request> {
    private final byte[] host;
    private long counted;

    private Counter(ActorContext<Request> context, String host) {
      super(context);
      this.host = host.getBytes(StandardCharsets.UTF_8);
    }

    static Behavior<Request> create(String host) {
      return Behaviors.setup(context -> new Counter(context, host));
    }

    @Override
    public Receive<Request> createReceive() {
      return newReceiveBuilder().onMessage(Request.class, this::onRequest).build();
    }

    private Behavior<Request> onRequest(Request request) {
      switch (request.payload()[0]) {
        case 'e' -> request.replyTo().tell(new Answer(request.payload()));
        case 'c' -> counted++;
        case 't' ->
            request
                .replyTo()
                .tell(new Answer(Long.toString(counted).getBytes(StandardCharsets.UTF_8)));
        case 'h' -> request.replyTo().tell(new Answer(Arrays.copyOf(host, host.length)));
        default -> {}
      }
      return this;
    }
  }
}
