"""What Slack takes in one message. Numbers from its block reference; the total is undocumented and measured."""

BLOCKS = 48
"""Slack takes 50; two are kept for notes about what was left out"""
TOTAL_TEXT = 12_000
"""all text in blocks; `msg_blocks_too_long` comes near 13,200"""
MESSAGE_TEXT = 4_000
SECTION = 3_000
HEADER = 150
FIELD = 2_000
FIELDS = 10
CONTEXT = 2_000
ACTION_ELEMENTS = 25
BUTTON_LABEL = 75
BUTTON_VALUE = 2_000
ACTION_ID = 255
CONFIRM_TITLE = 100
CONFIRM_TEXT = 300
CONFIRM_BUTTON = 30
CODE = 2_900
"""characters of table in one section, leaving room for the fence and escapes are counted"""
