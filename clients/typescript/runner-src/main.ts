/** Plays the commands of `clients/scenarios/README.md` with the library. */
import { createInterface } from "node:readline";
import { bulkCommands, poolCommands, taskCommands } from "./admission.js";
import { errorAnswer } from "./errors.js";
import { type Fields, number, text } from "./fields.js";
import { connectionCommands, loadCommands, webCommands } from "./process.js";
import { type Command, Session } from "./session.js";
import { lockCommands, rateCommands, sequenceCommands, stockCommands } from "./verbs.js";
import { watchCommands } from "./watches.js";

const running = new Map<unknown, AbortController>();

const controlCommands: Record<string, Command> = {
  cancel: (_, fields) => {
    running.get(number(fields, "target"))?.abort();
    return {};
  },
};

const commands: Record<string, Command | undefined> = {
  ...connectionCommands,
  ...taskCommands,
  ...bulkCommands,
  ...poolCommands,
  ...rateCommands,
  ...sequenceCommands,
  ...lockCommands,
  ...stockCommands,
  ...watchCommands,
  ...loadCommands,
  ...webCommands,
  ...controlCommands,
};

function write(line: unknown): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

const session = new Session(write);

async function play(fields: Fields): Promise<void> {
  const id = fields["id"];
  const stop = new AbortController();
  running.set(id, stop);
  try {
    const name = text(fields, "do");
    const command = commands[name];
    if (command === undefined) throw new Error(`there is no command ${name}`);
    write({ id, answer: await command(session, fields, stop.signal) });
  } catch (error) {
    write({ id, error: errorAnswer(error) });
  } finally {
    running.delete(id);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const fields = JSON.parse(line) as Fields;
  if (fields["do"] === "quit") {
    process.stdout.write(`${JSON.stringify({ id: fields["id"], answer: {} })}\n`, () => process.exit(0));
  } else {
    void play(fields);
  }
}
process.exit(0);
