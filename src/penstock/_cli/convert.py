"""`penstock convert`: one protocol's request in, another's out.

Leans on `penstock.messages`. Findings (what could not be said, what was mended) go to standard error, one line each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._cli import common_options
from penstock._cli.translate import OutputFile, is_same_file, print_findings

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EPILOG = """\
examples:
  penstock convert --from openai-chat --to anthropic request.json
  penstock convert --from responses --to gemini --model gemini-x -o converted.json request.json
  jq .body recorded.json | penstock convert --from anthropic --to openai-chat | jq .messages

Findings (what the target cannot say, what was mended for it) go to standard error.
Exit code: 0, also with findings; 2 for input that cannot be used, with the path to what is wrong in it, and for
settings that --strict does not let go.
"""
IMAGES = ("keep", "placeholder", "skip", "error")


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    from penstock._protocols import MODULES

    parser.epilog = EPILOG
    names = ", ".join(sorted(MODULES))
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the body; - or nothing: standard input")
    parser.add_argument(
        "--from", dest="source", metavar="PROTOCOL", required=True, help=f"whose request it is: {names}"
    )
    parser.add_argument("--to", dest="target", metavar="PROTOCOL", required=True, help="whose it is to become")
    parser.add_argument("--model", metavar="NAME", default="", help="the model to ask for, instead of the one named")
    parser.add_argument(
        "--images", choices=IMAGES, default="keep", help="what becomes of images that have no place (default: keep)"
    )
    parser.add_argument(
        "--max-output",
        metavar="N",
        type=int,
        help="what the model can write at most: half of it is asked for where no limit is said",
    )
    parser.add_argument("--prompt-caching", action="store_true", help="set cache points for the conversation")
    parser.add_argument(
        "--strict", action="store_true", help="refuse a request with settings that change the result and cannot be said"
    )
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where to write; - is standard output")
    parser.add_argument("-q", "--quiet", action="store_true", help="no findings on standard error")


def run(options: Namespace) -> int:
    """Convert one body."""
    import msgspec

    from penstock._jsontext import as_json
    from penstock._messages.convert import convert
    from penstock.errors import InputError

    if options.output != "-" and is_same_file(options.file, options.output):
        raise InputError(f"{options.output}: the output would overwrite the input")
    with common_options.open_input(options.file) as file:
        body = b"".join(common_options.read_chunks(file))
    made = convert(
        body,
        options.source,
        options.target,
        model=options.model,
        images=options.images,
        max_output=options.max_output,
        prompt_caching=options.prompt_caching,
        strict=options.strict,
    )
    with OutputFile(options.output) as output:
        output.write(msgspec.json.format(as_json(made.body), indent=2).encode() + b"\n")
    if not options.quiet:
        print_findings(made.diagnostics)
    return 0
