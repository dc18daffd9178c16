"""Coding agents that install from npm: how each is told of a server, and given one task."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MODEL: Final = "coder"
FILE: Final = "NOTES.md"
"""A name that small models copy rightly, and that no agent's instructions have, as they have README.md."""
TASK: Final = f"Read the file {FILE} and tell me the code word in it."


@dataclass(frozen=True)
class Program:
    """One agent: its command, its environment, and the files of its home folder, for a server's address."""

    command: Sequence[str]
    """Begins with its script in ``node_modules/.bin``."""
    tool: str
    """The tool that reads a file."""
    environment: Callable[[str], Mapping[str, str]] = lambda url: {}
    files: Callable[[str], Mapping[str, Any]] = lambda url: {}
    """Text, or what JSON is written of, by path below the home folder."""

    def write_home(self, home: Path, url: str) -> None:
        """Write the agent's files for the server at ``url``."""
        for name, content in self.files(url).items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            text = content if isinstance(content, str) else json.dumps(content)
            (home / name).write_text(text, encoding="utf-8")


PROGRAMS: Final = {
    "Claude Code": Program(
        ("claude", "--bare", "--tools", "Read", "--print", TASK),
        "Read",
        lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_AUTH_TOKEN": "none",
            "ANTHROPIC_MODEL": MODEL,
            "ANTHROPIC_SMALL_FAST_MODEL": MODEL,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MAX_THINKING_TOKENS": "0",
        },
    ),
    "Codex": Program(
        ("codex", "exec", "--skip-git-repo-check", "--sandbox", "read-only", TASK),
        "exec_command",
        lambda url: {"AGENTRT_TOKEN": "none"},
        lambda url: {
            ".codex/config.toml": f"""\
model = "{MODEL}"
model_provider = "agentrt"
check_for_update_on_startup = false
[features]
multi_agent = false
[analytics]
enabled = false
[model_providers.agentrt]
name = "agentrt"
base_url = "{url}/v1"
env_key = "AGENTRT_TOKEN"
wire_api = "responses"
"""
        },
    ),
    "Qwen Code": Program(
        (
            *("qwen", "--bare", "--auth-type", "openai", "--model", MODEL),
            *("--exclude-tools", "edit", "run_shell_command", "--prompt", TASK),
        ),
        "read_file",
        lambda url: {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none"},
        lambda url: {
            ".qwen/settings.json": {
                "general": {"disableAutoUpdate": True},
                "privacy": {"usageStatisticsEnabled": False},
                "telemetry": {"enabled": False},
            }
        },
    ),
    "Cline": Program(
        ("cline", TASK),
        "read_files",
        files=lambda url: {
            ".cline/data/settings/providers.json": {
                "version": 1,
                "lastUsedProvider": "openai-compatible",
                "providers": {
                    "openai-compatible": {
                        "settings": {
                            "provider": "openai-compatible",
                            "apiKey": "none",
                            "model": MODEL,
                            "baseUrl": f"{url}/v1",
                        },
                        "updatedAt": "2026-11-29T00:00:00.000Z",
                        "tokenSource": "manual",
                    }
                },
            }
        },
    ),
    "opencode": Program(
        ("opencode", "run", "--model", f"agentrt/{MODEL}", TASK),
        "read",
        lambda url: {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        lambda url: {
            ".config/opencode/opencode.json": {
                "autoupdate": False,
                "share": "disabled",
                "tools": {"bash": False, "edit": False, "task": False, "webfetch": False, "write": False},
                "provider": {
                    "agentrt": {
                        "npm": "@ai-sdk/openai-compatible",
                        "name": "agentrt",
                        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
                        "models": {MODEL: {"name": MODEL, "limit": {"context": 32768, "output": 512}}},
                    }
                },
            }
        },
    ),
    "pi": Program(
        ("pi", "--provider", "agentrt", "--model", MODEL, "--tools", "read", "--print", TASK),
        "read",
        lambda url: {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"},
        lambda url: {
            ".pi/agent/models.json": {
                "providers": {
                    "agentrt": {
                        "baseUrl": f"{url}/v1",
                        "api": "openai-completions",
                        "apiKey": "none",
                        "models": [{"id": MODEL, "contextWindow": 32768, "maxTokens": 512}],
                    }
                }
            }
        },
    ),
}
