import ml_collections


def get_config():
    config = ml_collections.ConfigDict()
    config.seed = 7
    config.use_lora = True
    config.pretrained = pretrained = ml_collections.ConfigDict()
    pretrained.model = "stabilityai/stable-diffusion-3.5-medium"
    config.sample = sample = ml_collections.ConfigDict()
    sample.sde_window_size = 2
    sample.num_batches_per_epoch = 2
    config.train = train = ml_collections.ConfigDict()
    train.learning_rate = 3e-4
    train.clip_range = 1e-4
    return config
