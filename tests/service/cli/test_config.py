"""Settings: flag over environment over default, each checked once and by name."""

import argparse
import dataclasses
import re

import pytest

from service.config import Config, ConfigError, add_flags, load


def parser():
    made = argparse.ArgumentParser()
    add_flags(made)
    return made


def from_flags(*flags, **environment):
    return load(vars(parser().parse_args(flags)), environment)


def test_defaults_listen_on_loopback_only():
    assert from_flags() == Config()
    assert Config().host == "127.0.0.1"


def test_the_flag_wins_over_the_environment():
    assert from_flags(SYNTAXD_MAX_ROWS="3").max_rows == 3
    assert from_flags("--max-rows", "4", SYNTAXD_MAX_ROWS="3").max_rows == 4


def test_yes_and_no():
    assert from_flags("--reproducible").reproducible
    assert from_flags(SYNTAXD_REPRODUCIBLE="on").reproducible
    assert not from_flags(SYNTAXD_REPRODUCIBLE="0").reproducible


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--port", "http"], "--port (SYNTAXD_PORT): 'http' is not a number"),
        (["--port", "70000"], "--port (SYNTAXD_PORT): 70000 is not in 0..65535"),
        (["--max-rows", "0"], "--max-rows (SYNTAXD_MAX_ROWS): 0 is not in 1.."),
        (["--device", "tpu"], "--device (SYNTAXD_DEVICE): 'tpu' is not one of auto, cpu, cuda"),
        (["--drain-seconds", "nan"], "--drain-seconds (SYNTAXD_DRAIN_SECONDS): nan is not in"),
        (["--metrics", "9090"], "--metrics (SYNTAXD_METRICS): '9090' is not HOST:PORT"),
        (["--metrics", "::1:70000"], "--metrics (SYNTAXD_METRICS): '::1:70000' is not HOST:PORT"),
        (["--admin", "yes"], "--admin (SYNTAXD_ADMIN): 'yes' is not off, on or HOST:PORT"),
        (["--admin", ""], "--admin (SYNTAXD_ADMIN): 'nothing' is not off, on or HOST:PORT"),
        (["--tls-key", "k"], "--tls-key (SYNTAXD_TLS_KEY): needs --tls-certificate"),
        (["--tls-certificate", "c"], "--tls-certificate (SYNTAXD_TLS_CERTIFICATE): needs --tls-k"),
        (["--tls-client-ca", "c"], "--tls-client-ca (SYNTAXD_TLS_CLIENT_CA): needs --tls-certif"),
        (["--host", ""], "--host (SYNTAXD_HOST): may not be empty"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(flags, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        from_flags(*flags)


def test_a_wrong_switch_in_the_environment_is_named():
    with pytest.raises(ConfigError, match="SYNTAXD_REPRODUCIBLE"):
        from_flags(SYNTAXD_REPRODUCIBLE="maybe")


def test_help_has_every_setting_with_its_default():
    text = " ".join(parser().format_help().split())
    for setting in dataclasses.fields(Config):
        assert "--" + setting.name.replace("_", "-") in text
        assert setting.metadata["help"] in text
    assert text.count("(default: ") == len(dataclasses.fields(Config))
