"""Speech for screen readers: a module of Speech Dispatcher, which starts it as a program and plays what it sends.

Only the standard library is imported, so that the module starts at once. `protocol` speaks with Speech Dispatcher,
`message` is what a message says, `delivery` how it is said, `server` who says it, and `espeak` who says it when the
server cannot.
"""
