"""Networks around torch.nn.LSTM, GRU and RNN, as tutorials and papers write them."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "zoo"))
from family import Family  # noqa: E402


def tokens(length, name="x"):
    def make(batch, device, dtype):
        return {name: torch.zeros(batch, length, dtype=torch.long, device=device)}
    return make


def floats(*shape):
    def make(batch, device, dtype):
        return {"x": torch.empty(batch, *shape, device=device, dtype=dtype)}
    return make


class LanguageModel(nn.Module):
    """pytorch/examples, word_language_model: two layers with dropout between them."""

    def __init__(self, layer=nn.LSTM, words=2000, width=200, **options):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(words, width)
        self.rnn = layer(width, width, batch_first=True, **options)
        self.decoder = nn.Linear(width, words)

    def forward(self, x):
        emb = self.drop(self.encoder(x))
        output, hidden = self.rnn(emb)
        output = self.drop(output)
        return self.decoder(output)


class Classifier(nn.Module):
    """A bidirectional layer whose last states are classified."""

    def __init__(self, layer=nn.GRU, width=100, hidden=128, **options):
        super().__init__()
        self.emb = nn.Embedding(1000, width)
        self.rnn = layer(width, hidden, bidirectional=True, batch_first=True, **options)
        self.fc = nn.Sequential(nn.Dropout(0.5), nn.Linear(4 * hidden, 5))

    def forward(self, x):
        out, h = self.rnn(self.emb(x))
        pooled = torch.cat([out.mean(1), out.max(1)[0]], 1)
        return self.fc(pooled)


class LastState(nn.Module):
    """A series of numbers, by its last hidden state."""

    def __init__(self, layer=nn.LSTM, features=16, hidden=64, **options):
        super().__init__()
        self.rnn = layer(features, hidden, batch_first=True, **options)
        self.fc = nn.Linear(options.get("proj_size", hidden), 4)

    def forward(self, x):
        states = self.rnn(x)[1]
        h = states[0] if isinstance(states, tuple) else states
        return self.fc(h[-1])


class LastStep(nn.Module):
    """A series of numbers, by the output of its last step; steps come first inside."""

    def __init__(self, layer=nn.RNN, features=32, hidden=256, **options):
        super().__init__()
        self.rnn = layer(features, hidden, **options)
        self.fc = nn.Linear(hidden, 4)

    def forward(self, x):
        out, _ = self.rnn(x.transpose(0, 1))
        return self.fc(out[-1])


class Translator(nn.Module):
    """An encoder and a decoder that begins with the encoder's states."""

    def __init__(self, layer=nn.LSTM, words=1000, width=128, hidden=256, **options):
        super().__init__()
        self.source = nn.Embedding(words, width)
        self.target = nn.Embedding(words, width)
        self.encoder = layer(width, hidden, batch_first=True, **options)
        self.decoder = layer(width, hidden, batch_first=True, **options)
        self.out = nn.Linear(hidden, words)

    def forward(self, x):
        _, states = self.encoder(self.source(x))
        out, _ = self.decoder(self.target(x), states)
        return self.out(out)


class Tagger(nn.Module):
    """Two modules, one behind the other, with a norm between them."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(1000, 64)
        self.first = nn.LSTM(64, 96, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(192)
        self.second = nn.GRU(192, 128, batch_first=True)
        self.fc = nn.Linear(128, 17)

    def forward(self, x):
        x, _ = self.first(self.emb(x))
        x = self.norm(x)
        x, _ = self.second(x)
        return self.fc(x)


class Recognizer(nn.Module):
    """Features of strips of an image, as in CRNN, without its convolutions."""

    def __init__(self):
        super().__init__()
        self.strips = nn.Linear(96, 256)
        self.rnn = nn.LSTM(256, 256, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(512, 37)

    def forward(self, x):
        f = F.relu(self.strips(x))
        y, _ = self.rnn(f)
        return self.fc(y)


def families():
    return {
        "lstm_lm": Family(lambda: LanguageModel(num_layers=2, dropout=0.2), tokens(35), ""),
        "lstm_lm_1": Family(lambda: LanguageModel(num_layers=1), tokens(35), ""),
        "gru_lm_3": Family(lambda: LanguageModel(nn.GRU, num_layers=3), tokens(140), ""),
        "bigru_cls": Family(lambda: Classifier(), tokens(60), ""),
        "bilstm_cls_2": Family(lambda: Classifier(nn.LSTM, num_layers=2, dropout=0.3), tokens(60),
                               ""),
        "lstm_series": Family(lambda: LastState(), floats(50, 16), ""),
        "lstm_unbiased": Family(lambda: LastState(hidden=224, bias=False), floats(50, 16), ""),
        "lstm_projected": Family(lambda: LastState(hidden=128, proj_size=48, num_layers=2),
                                 floats(50, 16), ""),
        "rnn_steps": Family(lambda: LastStep(), floats(40, 32), ""),
        "rnn_relu_2": Family(lambda: LastStep(hidden=448, nonlinearity="relu", num_layers=2),
                             floats(40, 32), ""),
        "gru_steps": Family(lambda: LastStep(nn.GRU), floats(40, 32), ""),
        "lstm_512": Family(lambda: LastState(features=128, hidden=512), floats(30, 128), ""),
        "seq2seq_lstm": Family(lambda: Translator(), tokens(20), ""),
        "seq2seq_gru_2": Family(lambda: Translator(nn.GRU, num_layers=2), tokens(20), ""),
        "tagger": Family(lambda: Tagger(), tokens(25), ""),
        "recognizer": Family(lambda: Recognizer(), floats(26, 96), ""),
    }
