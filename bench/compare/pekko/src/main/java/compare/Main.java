package compare;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/** A node that serves the commands of bench/compare: see node.go, which has the same ones. */
public final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    String[] peers = args[2].split(",");
    Entities entities = new Entities(args[0], args[1], peers);
    Load load = new Load(entities);
    System.out.println("{\"ready\":true}");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      System.out.println(answer(load, line.split(" ")));
    }
    entities.close();
  }

  private static String answer(Load load, String[] command) {
    try {
      int a = Integer.parseInt(command[1]);
      return switch (command[0]) {
        case "start" -> load.start(a);
        case "ask" -> load.askFor(a, Integer.parseInt(command[2]));
        case "tell" -> load.tellAll(a, Integer.parseInt(command[2]));
        case "watch" -> load.watchFor(a, Integer.parseInt(command[2]));
        default -> "{\"error\":\"unknown command\"}";
      };
    } catch (Exception e) {
      return "{\"error\":\"" + String.valueOf(e).replaceAll("[^ -~]|[\"\\\\]", " ") + "\"}";
    }
  }
}
