"""Lightning: 16 bits with a scaler, early stopping, clipped gradients, a logger of the card's memory."""
import lightning
import torch
import torchvision


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = torchvision.models.resnet18(num_classes=10)

    def loss(self, batch):
        return torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def training_step(self, batch, _):
        return self.loss(batch)

    def validation_step(self, batch, _):
        self.log("val", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


if __name__ == "__main__":
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.rand(128, 3, 64, 64), torch.randint(0, 10, (128,)))
    callbacks = [lightning.pytorch.callbacks.EarlyStopping("val", check_finite=True),
                 lightning.pytorch.callbacks.DeviceStatsMonitor()]
    trainer = lightning.Trainer(precision="16-mixed", max_epochs=2, gradient_clip_val=1.0, callbacks=callbacks,
                                enable_progress_bar=False, log_every_n_steps=1,
                                logger=lightning.pytorch.loggers.CSVLogger("logs"))
    trainer.fit(Module(), torch.utils.data.DataLoader(data, 32), torch.utils.data.DataLoader(data, 32))
    assert trainer.global_step == 8, trainer.global_step
