import type { DescMessage, DescMethod, MessageShape } from "@bufbuild/protobuf";
import { fromBinary, toBinary } from "@bufbuild/protobuf";

/** A method of the contract with its messages. */
export type Method<I extends DescMessage, O extends DescMessage> = Omit<DescMethod, "input" | "output"> & {
  readonly input: I;
  readonly output: O;
};

/** How a method is called. */
export interface Codec<I extends DescMessage, O extends DescMessage> {
  readonly path: string;
  readonly serialize: (message: MessageShape<I>) => Buffer;
  readonly deserialize: (message: Buffer) => MessageShape<O>;
}

const codecs = new WeakMap<object, unknown>();

/** Returns the codec of a method; always the same one. */
export function codec<I extends DescMessage, O extends DescMessage>(method: Method<I, O>): Codec<I, O> {
  const known = codecs.get(method) as Codec<I, O> | undefined;
  if (known !== undefined) return known;
  const made: Codec<I, O> = {
    path: `/${method.parent.typeName}/${method.name}`,
    serialize: (message) => {
      const { buffer, byteOffset, byteLength } = toBinary(method.input, message);
      return Buffer.from(buffer, byteOffset, byteLength);
    },
    deserialize: (message) => fromBinary(method.output, message),
  };
  codecs.set(method, made);
  return made;
}
