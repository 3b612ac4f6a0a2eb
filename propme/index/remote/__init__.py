"""An index behind a server of infini-gram's wire format: what nobody can hold, asked over HTTP.

`propme.index.remote.remote_index.RemoteIndex` is the index; below it, in the order in which a
question goes down: search, ranks, reading (of documents), client, answers (those that are kept),
questions (what an answer must be), http. Nothing is imported here: opening a local index needs none
of it.
"""
