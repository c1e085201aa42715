"""A folder with a language model that takes little, for programs that want one."""
import tokenizers
import transformers

CONFIG = transformers.Qwen3Config(
    vocab_size=1000, hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
    num_key_value_heads=4, head_dim=64, max_position_embeddings=2048, dtype="bfloat16", eos_token_id=1, bos_token_id=0,
    pad_token_id=1, architectures=["Qwen3ForCausalLM"])


def save_tokenizer(folder):
    """One token a byte."""
    pre = tokenizers.pre_tokenizers.ByteLevel
    letters = {letter: 2 + i for i, letter in enumerate(sorted(pre.alphabet()))}
    made = tokenizers.Tokenizer(tokenizers.models.BPE({"<s>": 0, "</s>": 1} | letters, []))
    made.pre_tokenizer, made.decoder = pre(add_prefix_space=False), tokenizers.decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>",
                                         pad_token="</s>").save_pretrained(folder)


def save(folder):
    """Without weights."""
    CONFIG.save_pretrained(folder)
    save_tokenizer(folder)
