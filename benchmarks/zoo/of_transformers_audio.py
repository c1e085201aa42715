"""Families of transformers 5.17.0 that read or make sounds, and that one tensor does not feed or
the usual lengths do not fit."""

from family import First, LastHiddenState, Logits, floats, several
from transformers_rows import (LAYERS, LLAMA, TEXT, VOCABULARY, WIDTH, XLM_ROBERTA, PairScores,
                               Row, families_of)

UNMASKED = {"apply_spec_augment": False, "layerdrop": 0.0}
WHISPER = {"hidden_size": 256, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
           "intermediate_size": 1024, "num_mel_bins": 80}
CONVOLUTIONS = {"conv_dim": [128] * 7}
WAV2VEC2 = {**WIDTH, **UNMASKED, **CONVOLUTIONS, "model_type": "wav2vec2"}
PARAKEET = {**WIDTH, "layerdrop": 0.0, "subsampling_conv_channels": 64}
SECONDS_30 = {"input_features": (80, 3000)}


class Transcript(Logits):
    def forward(self, input_values, decoder_input_ids):
        return self.model(input_values, decoder_input_ids=decoder_input_ids).logits


class TranscriptOfMel(Logits):
    def forward(self, input_features, decoder_input_ids):
        return self.model(input_features, decoder_input_ids=decoder_input_ids).logits


class Channels(Logits):
    """Of a token in each codebook at each step."""
    def forward(self, input_ids, decoder_input_ids):
        logits = self.model(input_ids, decoder_input_ids=decoder_input_ids).logits
        return logits.reshape(input_ids.shape[0], -1, logits.shape[-1])


class Waveform(Logits):
    def forward(self, input_features, noise_sequence):
        return self.model(input_features, noise_sequence).waveforms


class Vocoder(Logits):
    def forward(self, spectrogram):
        return self.model(spectrogram)


class Decoded(Logits):
    """What a codec makes of a sound."""
    def forward(self, input_values):
        return self.model(input_values).audio_values


class WithMask(Logits):
    def forward(self, input_features, input_features_mask):
        return self.model(input_features, input_features_mask).last_hidden_state


class Conditioned(Logits):
    def forward(self, encoder_hidden_states, input_ids):
        logits = self.model(input_ids.flatten(0, 1),
                            encoder_hidden_states=encoder_hidden_states).logits
        return logits.reshape(input_ids.shape[0], -1, logits.shape[-1])


ROWS = {
    "clap": Row("ClapModel", {
        "text_config": TEXT, "projection_dim": 256, "audio_config": {
            "patch_embeds_hidden_size": 48, "hidden_size": 384, "depths": [1, 1, 2, 1],
            "num_attention_heads": [2, 4, 8, 16], "projection_dim": 256}}, PairScores,
        several({"input_features": (1, 1001, 64)}, input_ids=(64,)), "mse"),
    "speecht5": Row("SpeechT5ForSpeechToText", {
        **UNMASKED, **CONVOLUTIONS, "hidden_size": 256, "encoder_layers": LAYERS,
        "decoder_layers": LAYERS, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 1024, "decoder_ffn_dim": 1024, "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0, "use_cache": False}, Transcript,
        several({"input_values": (16000,)}, decoder_input_ids=(32,))),
    "wav2vec2-bert": Row("Wav2Vec2BertForCTC", {
        **WIDTH, **UNMASKED, "output_hidden_size": 256, "vocab_size": 32}, Logits,
        floats("input_features", 200, 160), "mse"),
    "wav2vec2-conformer": Row("Wav2Vec2ConformerForCTC", {
        **WIDTH, **UNMASKED, **CONVOLUTIONS, "vocab_size": 32}, Logits,
        floats("input_values", 16000), "mse"),
    "voxtral_encoder": Row("VoxtralEncoder", WHISPER, LastHiddenState,
                           floats("input_features", 80, 3000), "mse"),
    "audioflamingo3_encoder": Row("AudioFlamingo3Encoder", WHISPER, WithMask,
                                  several(SECONDS_30, input_features_mask=(3000,)), "mse"),
    "dia": Row("DiaForConditionalGeneration", {
        "encoder_config": {**WIDTH, "head_dim": 64, "num_key_value_heads": 4},
        "decoder_config": {**WIDTH, "head_dim": 64, "num_key_value_heads": 2,
                           "cross_num_attention_heads": 4, "cross_head_dim": 64,
                           "cross_num_key_value_heads": 4, "cross_hidden_size": 256},
        "use_cache": False}, Channels, several(input_ids=(128,), decoder_input_ids=(64, 9))),
    "univnet": Row("UnivNetModel", {}, Waveform,
                   several({"input_features": (40, 100), "noise_sequence": (40, 64)}), "mse"),
    "moonshine": Row("MoonshineForConditionalGeneration", {
        "vocab_size": VOCABULARY, "encoder_num_hidden_layers": LAYERS,
        "decoder_num_hidden_layers": LAYERS, "use_cache": False}, Transcript,
        several({"input_values": (16000,)}, decoder_input_ids=(32,))),
    "moonshine_streaming": Row("MoonshineStreamingForConditionalGeneration", {
        "vocab_size": VOCABULARY, "num_hidden_layers": LAYERS, "use_cache": False,
        "num_key_value_heads": 8, "encoder_config": {
            "num_hidden_layers": LAYERS, "sliding_windows": [[16, 4], [16, 0]]}},
        Transcript,
        several({"input_values": (16000,)}, decoder_input_ids=(32,))),
    "dac": Row("DacModel", {
        "encoder_hidden_size": 16, "decoder_hidden_size": 256, "n_codebooks": 3}, Decoded,
        floats("input_values", 1, 16384), "mse"),
    "musicgen_melody_decoder": Row("MusicgenMelodyForCausalLM", {
        "num_hidden_layers": LAYERS, "hidden_size": 256, "num_attention_heads": 4,
        "ffn_dim": 1024, "use_cache": False}, Conditioned,
        several({"encoder_hidden_states": (24, 256)}, input_ids=(4, 64))),
    "fastspeech2_conformer_hifigan": Row("FastSpeech2ConformerHifiGan", {
        "upsample_initial_channel": 128}, Vocoder, floats("spectrogram", 60, 80), "mse"),
    "xcodec": Row("XcodecModel", {
        "acoustic_model_config": {
            "model_type": "dac", "encoder_hidden_size": 16, "decoder_hidden_size": 256,
            "hidden_size": 256, "n_codebooks": 2},
        "semantic_model_config": {**WAV2VEC2, "model_type": "hubert"}}, Decoded,
        floats("input_values", 1, 16000), "mse"),
    "voxtral_realtime_encoder": Row("VoxtralRealtimeEncoder", {
        **WIDTH, "num_key_value_heads": 4, "head_dim": 64, "num_mel_bins": 80},
        LastHiddenState, floats("input_features", 80, 800), "mse"),
    "speech-encoder-decoder": Row("SpeechEncoderDecoderModel", {
        "encoder": WAV2VEC2, "decoder": {**XLM_ROBERTA, "is_decoder": True,
                                         "add_cross_attention": True, "use_cache": False}},
        Transcript, several({"input_values": (16000,)}, decoder_input_ids=(32,))),
    "canary": Row("CanaryForConditionalGeneration", {
        "encoder_config": {**PARAKEET, "model_type": "parakeet_encoder"},
        "decoder_config": {**LLAMA, "head_dim": 64}, "vocab_size": VOCABULARY,
        "use_cache": False}, TranscriptOfMel,
        several({"input_features": (400, 80)}, decoder_input_ids=(32,))),
    "granite_speech5_encoder": Row("GraniteSpeech5Encoder", {
        **WIDTH, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": VOCABULARY},
        LastHiddenState, floats("input_features", 128, 320), "mse"),
    "fun_asr_nano_encoder": Row("FunAsrNanoEncoder", {
        **WIDTH, "num_stacked_frames": 7, "num_timestamp_prediction_layers": 1}, WithMask,
        several({"input_features": (100, 560)}, input_features_mask=(100,)), "mse"),
    "glmasr_encoder": Row("GlmAsrEncoder", {
        **WIDTH, "num_key_value_heads": 4, "num_mel_bins": 80}, LastHiddenState,
        floats("input_features", 80, 3000), "mse"),
    "qwen2_audio_encoder": Row("Qwen2AudioEncoder", {
        "num_mel_bins": 80, "encoder_layers": LAYERS, "encoder_attention_heads": 4,
        "encoder_ffn_dim": 1024, "d_model": 256}, LastHiddenState,
        floats("input_features", 80, 3000), "mse"),
    "pe_audio_encoder": Row("PeAudioEncoder", {
        **WIDTH, "num_key_value_heads": 4, "head_dim": 64, "dac_config": {
            "encoder_hidden_size": 16, "decoder_hidden_size": 256, "n_codebooks": 2}},
        LastHiddenState, floats("input_values", 1, 16384), "mse"),
    "vibevoice_acoustic_tokenizer": Row("VibeVoiceAcousticTokenizerModel", {
        "num_filters": 8, "downsampling_ratios": [2, 4, 5], "depths": [1, 1, 1, 2]},
        First, floats("input_values", 1, 16000), "mse"),
    "lasr_encoder": Row("LasrEncoder", {**WIDTH, "layerdrop": 0.0}, LastHiddenState,
                        floats("input_features", 400, 128), "mse"),
}


def families(is_wanted=lambda name: True):
    return families_of(ROWS, is_wanted)
