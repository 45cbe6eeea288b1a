package compare;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.pekko.actor.ExtendedActorSystem;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.ActorRefResolver;
import org.apache.pekko.actor.typed.javadsl.Adapter;
import org.apache.pekko.serialization.SerializerWithStringManifest;

/**
 * Writes messages as bytes: of a request the length of the reference to the asker, the reference,
 * and the payload. A serializer by hand is the quickest that Pekko's manual describes.
 */
public final class MessageSerializer extends SerializerWithStringManifest {
  private static final String REQUEST = "q";
  private static final String ANSWER = "a";

  private final ActorRefResolver refs;

  public MessageSerializer(ExtendedActorSystem system) {
    refs = ActorRefResolver.get(Adapter.toTyped(system));
  }

  @Override
  public int identifier() {
    return 7101;
  }

  @Override
  public String manifest(Object message) {
    return message instanceof Request ? REQUEST : ANSWER;
  }

  @Override
  public byte[] toBinary(Object message) {
    if (message instanceof Answer answer) {
      return answer.payload();
    }
    Request request = (Request) message;
    byte[] ref =
        request.replyTo() == null
            ? new byte[0]
            : refs.toSerializationFormat(request.replyTo()).getBytes(StandardCharsets.UTF_8);
    return ByteBuffer.allocate(4 + ref.length + request.payload().length)
        .putInt(ref.length)
        .put(ref)
        .put(request.payload())
        .array();
  }

  @Override
  public Object fromBinary(byte[] bytes, String manifest) {
    if (manifest.equals(ANSWER)) {
      return new Answer(bytes);
    }
    ByteBuffer in = ByteBuffer.wrap(bytes);
    byte[] ref = new byte[in.getInt()];
    in.get(ref);
    byte[] payload = new byte[in.remaining()];
    in.get(payload);
    ActorRef<Answer> replyTo =
        ref.length == 0 ? null : refs.resolveActorRef(new String(ref, StandardCharsets.UTF_8));
    return new Request(payload, replyTo);
  }
}
