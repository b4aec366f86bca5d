"""The numbers of a clause: the questions that planning asks a snapshot, their answers, and what follows from them."""
