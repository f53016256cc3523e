"""The example post-edits what a stock pipeline of transformers writes, and any other callable."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "examples"))

from post_edit_pipeline import post_edit

TEXTS = ["the food was", "the staff is very"]


def test_the_output_of_a_stock_pipeline_is_edited(editor, toy_directory):
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, pipeline

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(toy_directory / "tokenizer.json"), pad_token="<pad>")
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=32)
    generate = pipeline("text-generation", model=GPT2LMHeadModel(config).eval(), tokenizer=tokenizer)

    def system(texts):
        return generate(texts, max_new_tokens=3, do_sample=False)

    traces = post_edit(system, TEXTS, editor, "positive")
    assert [trace.source for trace in traces] == [answer[0]["generated_text"] for answer in system(TEXTS)]
    assert traces == editor.transfer_all([trace.source for trace in traces], "positive")


def test_any_callable_will_do(editor):
    expected = editor.transfer_all([f"{text} good ." for text in TEXTS], "positive")
    assert post_edit(lambda texts: [f"{text} good ." for text in texts], TEXTS, editor, "positive") == expected
    summaries = post_edit(
        lambda texts: [{"summary_text": f"{text} good ."} for text in texts], TEXTS, editor, "positive"
    )
    assert summaries == expected
