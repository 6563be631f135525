"""The screen of `trajlog step`.

`walk` is the episode with a place in it, `panes` what can be said about that place, `paint` how texts
become cells of a terminal, `widgets` and `app` the screen itself. Only the last two know textual.
"""
