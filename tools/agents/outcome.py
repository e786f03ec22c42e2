"""What came of a run, in a form that two runs can be compared by."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tools.strict_upstream.scenario import SENTENCE, WORD

if TYPE_CHECKING:
    from tools.strict_upstream.conversation import Item
    from tools.strict_upstream.request_log import Exchange, RequestLog

# What an agent's output says about an error. The words are the agents' own and those of the vendors.
_CLASSES = {
    "rate-limit": r"rate.?limit|too many requests|\b429\b",
    "quota": r"quota|credit balance|billing|usage limit",
    "auth": r"api.?key (provided|not valid)|invalid.{0,20}api.?key|\b401\b|authentication_|unauthor",
    "overflow": r"too long|context.?(window|length)|token count|maximum (context|number)|too large",
    "overload": r"overload|\b529\b|\b503\b|unavailable",
    "broken": r"disconnect|connection|stream "
    "(error|closed|ended|terminated)|terminated|ECONNRESET|premature|incomplete|network|decod(e error|ing response)"
    "|JSON parsing failed",
}
_USAGE = re.compile(r'"(input|output)(?:_tokens|Tokens)?": ?(\d+)')
_ANSWER = re.compile(r"(?:toolu_01|call_)([0-9]{4})[0-9]{2}Zy")
_TURNED = re.compile(r"[0-9a-f]{12}-(?:tsrif|dnoces)")


@dataclass
class Outcome:
    """How an agent did. `history` is what its last request of the task held: texts, calls and results."""

    exit_code: int = 0
    said_word: bool = False
    answers: int = 0  # how often the output holds the last sentence
    agent_requests: int = 0  # requests of the agent, as seen between it and its server
    upstream_requests: int = 0
    calls: int = 0  # calls that the model made
    history: list[list[str]] = field(default_factory=list)
    reasoning: list[int] = field(default_factory=list)  # sealed reasoning returned, and steps that had any
    prompt_words: int = 0  # words of the instructions and the task, in the first request
    tools: list[str] = field(default_factory=list)  # on offer in the first request
    usage: list[int] = field(default_factory=list)  # the last counts of input and output tokens that it printed
    refusals: list[str] = field(default_factory=list)  # rules that requests broke
    shown: list[str] = field(default_factory=list)  # classes of errors in the output, if the task failed
    transport: list[str] = field(default_factory=list)  # wrong ways of asking
    seconds: float = 0.0
    output: str = ""  # the end of what it printed

    def to_json(self) -> dict[str, Any]:
        """For the cache."""
        return asdict(self)


def classify_errors(output: str) -> list[str]:
    """The classes of errors that the output speaks of."""
    return [name for name, pattern in _CLASSES.items() if re.search(pattern, output, re.IGNORECASE)]


def count_answers(output: str, words: list[str]) -> int:
    """How often the last sentence of the scripted model stands in the output. Results of tools hold the words, too."""
    sentence = SENTENCE.format(turned=" ".join(words)[::-1])
    return " ".join(output.split()).count(sentence)


def read_usage(output: str) -> list[int]:
    """The last counts of input and output tokens in an output of JSON lines; nothing if there are none."""
    last = {kind: int(count) for kind, count in _USAGE.findall(output)}
    return [last["input"], last["output"]] if len(last) > 1 else []


def count_prompt_words(exchange: Exchange) -> int:
    """Words of the instructions and of the user's messages."""
    texts = [exchange.system, *(item.text for item in exchange.items if item.kind == "user")]
    return sum(len(text.split()) for text in texts)


def summarize_history(items: list[Item]) -> list[list[str]]:
    """Texts, commands and results, without what differs from run to run."""
    rows: list[list[str]] = []
    for item in items:
        if item.kind == "assistant":
            if rows and rows[-1][0] == "text":
                rows[-1][1] = f"{rows[-1][1]} {mask(item.text)}".strip()
            else:
                rows.append(["text", mask(item.text)])
        elif item.kind == "call":
            rows.append(["call", mask(_command(item.text))])
        elif item.kind == "result":
            rows.append(["result", _result(item.text)])
    return _sort_results(rows)


def _sort_results(rows: list[list[str]]) -> list[list[str]]:
    """Results of parallel calls may come in any order; a protocol may hold them in another."""
    kinds = {"text": 0, "call": 1, "result": 2}
    groups: list[list[list[str]]] = [[]]
    for row in rows:
        if groups[-1] and kinds[row[0]] < kinds[groups[-1][-1][0]]:
            groups.append([])
        groups[-1].append(row)
    return [row for group in groups for row in sorted(group, key=lambda one: (kinds[one[0]], one))]


def mask(text: str) -> str:
    """The text with placeholders for the random words."""
    text = WORD.sub(lambda found: f"<{found[0].partition('-')[0]}>", text)
    return _TURNED.sub("<turned>", text).strip()


def _command(arguments: str) -> str:
    """The command of a call, without the fields that agents add."""
    try:
        fields = json.loads(arguments)
    except ValueError:
        return f"not JSON: {arguments[:80]}"
    found = re.search(r"(cat|echo) [^\"]*", json.dumps(fields))
    return found[0].rstrip("\\]}") if found else json.dumps(fields, sort_keys=True)[:120]


def _result(text: str) -> str:
    words = [mask(word) for word in (*WORD.findall(text), *_TURNED.findall(text))]
    if words:
        return " ".join(sorted(set(words)))
    return re.sub(r"\d+|/\S+", "#", text)[:80]


def count_reasoning(log: RequestLog) -> list[int]:
    """Of the last request of the task: sealed reasoning that came back, and answers that carried some."""
    main = [one for one in log.main() if one.outcome != "refused"]
    if not main or not any(_carries(one) for one in main):
        return []
    items = main[-1].items
    returned = sum(1 for item in items if item.kind == "reasoning" and item.id == "sealed")
    # An agent may split the calls of one answer into several messages: their ids hold the number of the answer.
    answers = {found[1] for item in items if item.kind == "call" and (found := _ANSWER.search(item.id))}
    steps = sum(1 for at, item in enumerate(items) if item.kind == "call" and (at == 0 or items[at - 1].kind != "call"))
    return [returned, min(steps, len(answers)) if answers else steps]


def _carries(exchange: Exchange) -> bool:
    """Whether the upstream seals reasoning for this request."""
    body = exchange.body or {}
    match exchange.protocol:
        case "messages":
            return bool((body.get("thinking") or {}).get("type", "disabled") != "disabled")
        case "responses":
            return "reasoning.encrypted_content" in (body.get("include") or ())
        case "gemini":
            return True
        case _:
            return False
