// The openai package for Node against a running server: `node clients.mjs URL`. Prints the name of
// each part that passed; a failure ends the program with status 1.
import assert from "node:assert/strict";

import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });
const model = "test";
const messages = [{ role: "user", content: "Say hello to the world in a few words." }];
const seeded = { temperature: 0.8, seed: 11 };
const Person = z.object({
  name: z.string().max(12),
  age: z.number().int().min(0).max(150),
  mood: z.enum(["glad", "sad"]),
});
const weather = {
  name: "get_weather",
  description: "The weather of a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string", enum: ["Paris", "Rome"] } },
    required: ["city"],
    additionalProperties: false,
  },
};

const parts = {
  async models() {
    const ids = [];
    for await (const each of client.models.list()) ids.push(each.id);
    assert.deepEqual(ids, ["test"]);
    assert.equal((await client.models.retrieve("test")).id, "test");
  },

  async chat() {
    const reply = await client.chat.completions.create({ model, messages, max_tokens: 12, n: 2, ...seeded });
    assert.equal(reply.choices.length, 2);
    assert.equal(reply.choices[0].message.role, "assistant");
    assert.ok(reply.choices[0].message.content.length > 0);
    assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
  },

  async stream() {
    const whole = await client.chat.completions.create({ model, messages, max_tokens: 16, ...seeded });
    const options = { model, messages, max_tokens: 16, stream_options: { include_usage: true }, ...seeded };
    let text = "";
    let usage = null;
    for await (const chunk of await client.chat.completions.create({ ...options, stream: true })) {
      text += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
    const runner = client.chat.completions.stream(options);
    let pieces = "";
    runner.on("content", (piece) => (pieces += piece));
    assert.equal(await runner.finalContent(), text);
    assert.equal(pieces, text);
  },

  async completions() {
    const options = { model, prompt: ["One two three", "Four five"], max_tokens: 6, ...seeded };
    const whole = await client.completions.create(options);
    const texts = ["", ""];
    for await (const chunk of await client.completions.create({ ...options, stream: true })) {
      for (const choice of chunk.choices) texts[choice.index] += choice.text;
    }
    assert.deepEqual(texts, whole.choices.map((choice) => choice.text));
  },

  // A client that stops reading closes its connection.
  async abort() {
    const stream = await client.chat.completions.create({ model, messages, max_tokens: 4000, stream: true });
    let count = 0;
    for await (const _ of stream) if (++count === 3) break;
    assert.equal(count, 3);
  },

  async structured_output() {
    const reply = await client.chat.completions.parse({
      model, messages, max_tokens: 80, response_format: zodResponseFormat(Person, "person"), ...seeded,
    });
    assert.ok(["glad", "sad"].includes(reply.choices[0].message.parsed.mood));
  },

  async tools() {
    const reply = await client.chat.completions.create({
      model, messages, max_tokens: 80, temperature: 0, parallel_tool_calls: false,
      tools: [{ type: "function", function: weather }],
      tool_choice: { type: "function", function: { name: "get_weather" } },
    });
    const [call] = reply.choices[0].message.tool_calls;
    assert.equal(call.function.name, "get_weather");
    assert.ok(["Paris", "Rome"].includes(JSON.parse(call.function.arguments).city));
  },

  // The helper calls the function itself and asks again with its result.
  async run_tools() {
    const asked = [];
    const tool = {
      type: "function",
      function: {
        ...weather,
        parse: JSON.parse,
        function: ({ city }) => {
          asked.push(city);
          return { degrees: 18 };
        },
      },
    };
    const options = {
      model, messages, max_tokens: 80, temperature: 0, tools: [tool], parallel_tool_calls: false,
    };
    for (const stream of [false, true]) {
      asked.length = 0;
      const runner = client.chat.completions.runTools(
        { ...options, stream, tool_choice: { type: "function", function: { name: "get_weather" } } },
        { maxChatCompletions: 3 },
      );
      await runner.done();
      assert.equal(asked.length, 1);
      assert.ok(runner.messages.some((message) => message.role === "tool"));
    }
  },

  async responses() {
    const options = { model, input: "Say hello.", max_output_tokens: 16, temperature: 0 };
    const whole = await client.responses.create(options);
    assert.ok(whole.output_text.length > 0);
    let text = "";
    const kinds = [];
    for await (const event of await client.responses.create({ ...options, stream: true })) {
      kinds.push(event.type);
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    assert.equal(text, whole.output_text);
    assert.equal(kinds[0], "response.created");
    assert.ok(["response.completed", "response.incomplete"].includes(kinds.at(-1)));
    assert.equal((await client.responses.retrieve(whole.id)).output_text, whole.output_text);
    await client.responses.delete(whole.id);
    const parsed = await client.responses.parse({
      ...options, max_output_tokens: 80, text: { format: zodTextFormat(Person, "person") },
    });
    assert.ok(parsed.output_parsed.age >= 0);
  },

  async errors() {
    const wrong = { model, messages, top_p: 7 };
    await assert.rejects(client.chat.completions.create(wrong), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, "top_p");
      assert.equal(error.code, "invalid_value");
      return true;
    });
    await assert.rejects(client.models.retrieve("gpt-4"), OpenAI.NotFoundError);
  },
};

for (const [name, part] of Object.entries(parts)) {
  try {
    await part();
    console.log(name);
  } catch (error) {
    console.error(`${name}:`, error);
    process.exitCode = 1;
  }
}
