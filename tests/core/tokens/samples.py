"""Texts of many kinds, and how many tokens public vocabularies make of them (o200k_base, by bpe-openai 0.1.4)."""

from __future__ import annotations

PROSE = (
    "The tide tables for the northern harbour were printed every autumn, and the ferrymen carried them in oilcloth. "
    "Nobody remembered who had first measured the water there, but the figures were trusted more than the almanac. "
)
CODE = '''def fold(events):
    """All turns of a stream; there is normally one."""
    book = Fold()
    for index, event in enumerate(events):
        if event.kind == "delta" and not book.closed:
            book.feed([event])
    return book.turns
'''
JSON = (
    '{"path": "src/harbour/tables.json", "limit": 200, "offset": 0, "rows": [{"id": 17, "name": "Low water", '
    '"height": 0.42, "ok": true}, {"id": 18, "name": "High water", "height": 3.91, "ok": false}], "next": null}'
)
CHINESE = "港口的潮汐表每年秋天印刷一次。渡船工人用油布包着它们。没有人记得最初是谁测量了那里的水位。"
RUSSIAN = "Таблицы приливов для северной гавани печатали каждую осень, и паромщики носили их в промасленной ткани."
EMOJI = (
    "Build passed 🎉 deploying now 🚀 new package 📦 fixed two bugs 🐛🐛 tests 🧪 translations 🌍 thanks 🙏 an idea 💡 "
    "the robot 🤖 is tired 😴 and coffee ☕ helps 😅 see you 👋"
)
COMPOUND = "Ship it 👩‍💻🚀🚀🚀 🇳🇴 👍🏽 family 👨‍👩‍👧‍👦 ❤️‍🔥 ⚠️ 🧑🏿‍🚒 done ✅✅ 🏳️‍🌈"
ALONE = "🎉🚀🔥💯✨🙌👏🎊🥳😂🤣😍😭🙏💪👀"
TEXTS = [PROSE, CODE, JSON, CHINESE, RUSSIAN, EMOJI]
