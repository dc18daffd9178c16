"""The live page: what the engines of a server do, as server-sent events and as a web page that shows them."""
