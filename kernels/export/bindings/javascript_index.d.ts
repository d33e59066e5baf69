/** An array of the network: its name, dtype, shape, elements, bytes, and the typed array that holds it. */
export interface Slot {
  name: string;
  dtype: string;
  shape: number[];
  size: number;
  bytes: number;
  type: { new (length: number): ArrayLike<number | bigint>; BYTES_PER_ELEMENT: number };
}
export const inputs: Slot[];
export const outputs: Slot[];
export class ModelError extends Error {
  code: number;
}
export class Model {
  threads: number;
  /** Computes the outputs from the inputs, in C order. */
  run(@TYPED@): @RESULT_TYPE@;
  /** Gives the model's memory, and its workers, back. */
  free(): void;
}
type Source = string | URL | ArrayBuffer | ArrayBufferView;
export function load(options?: { weights?: Source; wasm?: Source; threads?: number }): Promise<Model>;
