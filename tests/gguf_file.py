"""The tiny model as a GGUF file, written by the format's own library."""

import json
from pathlib import Path

from tiny import tiny_demo

#: Of the format: an ordinary token, and one that is no text.
_NORMAL, _CONTROL = 1, 3


def write_gguf(path: Path) -> Path:
    """Write weights, tokenizer and configuration in float32; nothing is rounded."""
    import gguf
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_demo().model, dtype=torch.float32)
    config = model.config
    tokenizer = json.loads((Path(tiny_demo().model) / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    special = {each["id"]: each["content"] for each in tokenizer["added_tokens"]}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    tokens = {n: text for text, n in vocabulary.items()} | special
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([tokens[n] for n in range(config.vocab_size)])
    writer.add_token_types(
        [_CONTROL if n in special else _NORMAL for n in range(config.vocab_size)]
    )
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, _, suffix = name.rpartition(".")
        if stem.endswith(("q_proj", "k_proj")):  # the format turns halves of a head into pairs
            n_heads = config.num_attention_heads
            halves = weight.reshape(n_heads, 2, -1, weight.shape[-1])
            weight = halves.swapaxes(1, 2).reshape(weight.shape)
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", weight.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
