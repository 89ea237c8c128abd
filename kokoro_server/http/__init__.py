"""Extensions of uvicorn: everything here knows its internals."""
