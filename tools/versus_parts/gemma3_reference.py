# Gemma 3 in float32 with numpy: hidden states and the head of a GGUF file's dequantised weights.
"""The reference that tools/kl compares with.

Weights: gguf-py's dequantisation. Forward pass as in transformers' modeling_gemma3.py (release
4.50): RMS norms before and after attention and feed-forward, norms of queries and keys, rotary
positions (base 10,000 in layers with a window, the file's base in every sixth layer, which sees
everything), tanh-approximated GELU. No rounding below float32 anywhere.
"""
import gguf
import numpy as np

WINDOW_ROPE_BASE = 10000.0
FULL_EVERY = 6  # llama.cpp's gemma3: the pattern is not stored in the file
QUERY_BLOCK = 256  # rows of attention scores at a time


class Gemma3Reference:
    """Weights of one file. vocabulary: rows of the head; all arrays float32."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self._fields = reader.fields
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        if self._setting("general.architecture", prefixed=False) != "gemma3":
            raise SystemExit(f"{path}: the reference knows gemma3 only")
        self.layers = self._setting("block_count")
        self.heads = self._setting("attention.head_count")
        self.kv_heads = self._setting("attention.head_count_kv")
        self.head_dim = self._setting("attention.key_length")
        self.window = self._setting("attention.sliding_window")
        self.epsilon = np.float32(self._setting("attention.layer_norm_rms_epsilon"))
        self.rope_base = self._setting("rope.freq_base")
        self.head = self._weights("token_embd.weight")
        self.vocabulary, self.width = self.head.shape

    def _setting(self, name, prefixed=True):
        return self._fields[f"gemma3.{name}" if prefixed else name].contents()

    def _weights(self, name):
        tensor = self._tensors[name]
        return np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)

    def _norm(self, x, name):
        scale = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.epsilon)
        return x * scale * self._weights(name + ".weight")

    def _rotate(self, x, base):
        """x: [tokens, heads, head_dim]; halves are rotated against each other."""
        half = self.head_dim // 2
        steps = base ** (-np.arange(half, dtype=np.float64) * 2 / self.head_dim)
        angles = np.outer(np.arange(len(x), dtype=np.float64), steps)[:, None, :]
        cosine, sine = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        low, high = x[..., :half], x[..., half:]
        return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)

    def _attend(self, q, k, v, window):
        """q: [tokens, heads, head_dim], k and v: [tokens, kv_heads, head_dim]; causal."""
        tokens = len(q)
        out = np.empty_like(q)
        for head in range(self.heads):
            source = head * self.kv_heads // self.heads
            for begin in range(0, tokens, QUERY_BLOCK):
                rows = np.arange(begin, min(begin + QUERY_BLOCK, tokens))[:, None]
                columns = np.arange(rows[-1, 0] + 1)[None, :]
                scores = q[rows[:, 0], head] @ k[:columns.size, source].T
                scores *= np.float32(self.head_dim ** -0.5)
                hidden = columns > rows
                if window:
                    hidden |= columns <= rows - window
                scores[hidden] = -np.inf
                scores = np.exp(scores - scores.max(axis=1, keepdims=True))
                scores /= scores.sum(axis=1, keepdims=True)
                out[rows[:, 0], head] = scores @ v[:columns.size, source]
        return out

    def _attention(self, x, prefix, layer):
        full = layer % FULL_EVERY == FULL_EVERY - 1
        base = self.rope_base if full else WINDOW_ROPE_BASE

        def heads_of(name, heads):
            return (x @ self._weights(f"{prefix}.attn_{name}.weight").T).reshape(
                len(x), heads, self.head_dim)

        q = self._rotate(self._norm(heads_of("q", self.heads), prefix + ".attn_q_norm"), base)
        k = self._rotate(self._norm(heads_of("k", self.kv_heads), prefix + ".attn_k_norm"), base)
        v = heads_of("v", self.kv_heads)
        mixed = self._attend(q, k, v, 0 if full else self.window)
        return mixed.reshape(len(x), -1) @ self._weights(prefix + ".attn_output.weight").T

    def _feed_forward(self, x, prefix):
        gate = x @ self._weights(prefix + ".ffn_gate.weight").T
        up = x @ self._weights(prefix + ".ffn_up.weight").T
        inner = np.float32(np.sqrt(2 / np.pi)) * (gate + np.float32(0.044715) * gate ** 3)
        return (gate / 2 * (1 + np.tanh(inner)) * up) @ self._weights(
            prefix + ".ffn_down.weight").T

    def hidden_states(self, ids):
        """[tokens, width]: what the head is multiplied with, for one sequence of token ids."""
        x = self.head[ids] * np.float32(np.sqrt(self.width))
        for layer in range(self.layers):
            prefix = f"blk.{layer}"
            mixed = self._attention(self._norm(x, prefix + ".attn_norm"), prefix, layer)
            x = x + self._norm(mixed, prefix + ".post_attention_norm")
            expanded = self._feed_forward(self._norm(x, prefix + ".ffn_norm"), prefix)
            x = x + self._norm(expanded, prefix + ".post_ffw_norm")
        return self._norm(x, "output_norm")

    def logits(self, hidden):
        """[rows, vocabulary] of rows of hidden states."""
        return hidden @ self.head.T
