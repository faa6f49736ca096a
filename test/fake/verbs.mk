# fake verbs.
