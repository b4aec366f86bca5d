"""Instances: what the event-at-a-time mechanisms share. An *instance* is a partial match.

On Python's side (`program.py`) `Program` compiles the conjuncts of a clause, `StreamRules` makes arrays of the window,
order, agreement and negation rules, and `CellRing` owns the elements of Kleene lists. Each gives words, addresses and
numbers, that a kernel turns into tuples of pointers once a call: `code_at`, `rules_at`, `cells_at`. In the kernel,
plain functions read them: `group_holds` (`evaluator.py`), `append`, `row_of`, `length_of` (`cells.py`), `joins`,
`is_before`, `agree`, `rejected` (`rules.py`). No Numba is imported when kernels run: their object code is cached, keyed
by all `KERNEL_SOURCES`.

An instance is its slots, int32, one for each variable of the clause in the order of `Program.variables`: the row of a
single variable's event, or the newest cell of a Kleene variable's list. Which slots are bound the mechanism knows: by
the instance's state, or by a mask beside it. Conditions are tested in groups: the mechanism says what an instance knows
before and after a step (`Moment`), and gets the number of the group of conjuncts that this step makes testable.

A kernel that binds `b` to instances that have bound `a`, for SEQ(A a, B b) or SEQ(A a, B+ b[])::

    # the driver
    program = Program(pattern, clause, events)
    rules = StreamRules(pattern, clause, events, program)  # asks for the groups of negation
    ring = program.ring()
    has_a = Moment(frozenset("a"), frozenset("a"))
    group = program.groups.first_group("b", has_a)  # conjuncts over a and b (b[1], or any element, of a list)
    grows = program.groups.element_group("b", Moment(frozenset("ab"), frozenset("a")))  # a further element of b
    leaves = program.groups.left_group(Moment(frozenset("ab"), frozenset("a")), "b")  # b.LEN, b[b.LEN], sums over b[]
    # no more groups are asked for
    words = np.array([group, *program.kernel_words(), *rules.kernel_words(), *ring.kernel_words()], np.int64)
    extend(words)  # NativeKernel(..., ("int64*",), (*KERNEL_SOURCES, "...codes"))

    # the kernel
    def extend(words):
        code, rules, cells = code_at(words, 1), rules_at(words, 1 + 9), cells_at(words, 1 + 9 + 15)
        ...
        if in_window(rules, first, row) and agree(rules, first, row) and is_before(rules, slots[base], row):
            slots[base + 1] = row  # or append(cells, 1, -1, row, row) for the first element of a list
            if group_holds(code, cells, words[0], slots, base):
                ...  # a match, unless rejected(rules, code, cells, slots, base, first, last)

What the kernel tested is counted: `Program.evaluations`, beside `Program.unary_evaluations` for what single events
decide. A full ring makes `append` return -1: undo what the event made, return a code, grow the ring, call again.
"""
