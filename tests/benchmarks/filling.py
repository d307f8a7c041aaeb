"""Fills the tables as years of use do, by a few statements: acts, captures, tries, runs, subjects.

There are as many acts, and as many captures, as is said; a subject for every five of them.
"""

from django.db import connection

__all__ = ["ACTS_OF_ONE", "fill"]

ACTS_OF_ONE = 5
"""Acts, and captures, that a subject has."""

_SPAN = "400 days"

_STATEMENTS = [
    # Six in ten are over. Of the rest most wait, below the ladder or on it; one in 400 is due.
    """
    INSERT INTO billing_invoice
        (id, number, customer, email, amount, status, rung, due_at, next_at, escalated_at)
    SELECT g, 'n' || g, 'A. Customer', 'a@example.org', 1,
        CASE WHEN g % 20 < 11 THEN 'resolved' WHEN g % 20 = 11 THEN 'cancelled'
             WHEN g % 20 < 16 THEN 'open' WHEN g % 20 = 18 THEN 'exhausted' ELSE 'escalated' END,
        CASE WHEN g % 20 BETWEEN 12 AND 15 THEN '' WHEN g % 20 = 18 THEN 'final_notice'
             ELSE (ARRAY['reminder', 'warning', 'final_notice'])[g % 3 + 1] END,
        now() + CASE WHEN g % 20 BETWEEN 12 AND 15 THEN 1 ELSE -1 END * interval '30 days',
        CASE WHEN g % 400 = 19 THEN now() - interval '1 hour'
             WHEN g % 20 IN (16, 17, 19) THEN now() + interval '3 days' END,
        CASE WHEN g % 20 NOT BETWEEN 12 AND 15 THEN now() - g % 100 * interval '1 hour' END
    FROM generate_series(1, %(subjects)s) g
    """,
    """
    INSERT INTO school_intervention
        (student, programme, guardian_email, attended, status, rung, due_at, next_at, escalated_at)
    SELECT 's' || g, 'Reading', 'a@example.org', false,
        CASE WHEN g % 2 = 0 THEN 'resolved' ELSE 'escalated' END, 'parent_notice',
        now() - interval '30 days', CASE WHEN g % 2 = 1 THEN now() + interval '2 days' END,
        now() - g % 100 * interval '1 hour'
    FROM generate_series(1, %(subjects)s / 4) g
    """,
    """
    INSERT INTO idempotent_actions_run
        (id, action, now, started_at, finished_at, beat_at, marked, resolved, selected, applied,
         exhausted, failed, skipped, errors)
    SELECT g, (ARRAY['escalate_overdue:billing.invoice', 'escalate_overdue:school.intervention',
                     'charge_orders'])[g % 3 + 1],
        at, at, at + interval '3 seconds', at + interval '3 seconds', 40, 5, 60, 50, 2,
        CASE WHEN g % 50 = 0 THEN 1 ELSE 0 END, '{"held": 6, "disputed": 3}', '[]'
    FROM (SELECT g, now() - (%(runs)s - g) * interval %(span)s / %(runs)s AS at
          FROM generate_series(1, %(runs)s) g) AS runs
    """,
    """
    INSERT INTO idempotent_actions_escalation
        (id, key, action, transition, subject_model, subject_pk, from_status, to_status, from_rung,
         rung, cycle, revision, actor, reason, acted_at, run_id)
    SELECT g, 'escalate_overdue:billing.invoice:' || g, 'escalate_overdue:billing.invoice',
        CASE WHEN g % 20 = 0 THEN 'resolve' WHEN g % 50 = 1 THEN 'hold' ELSE 'escalate' END,
        'billing.invoice', (g % %(subjects)s + 1)::text, 'overdue',
        CASE WHEN g % 20 = 0 THEN 'resolved' WHEN g % 50 = 1 THEN 'overdue' ELSE 'escalated' END,
        '', (ARRAY['reminder', 'warning', 'final_notice'])[g % 3 + 1], 1, 0,
        CASE WHEN g % 50 = 1 THEN 'clerk' ELSE 'poll' END, '',
        now() - (%(rows)s - g) * interval %(span)s / %(rows)s,
        CASE WHEN g % 50 <> 1 THEN (g - 1) * %(runs)s / %(rows)s + 1 END
    FROM generate_series(1, %(rows)s::bigint) g
    """,
    # Of a thousand, two need a person, two are unknown, four wait; the rest are finished.
    """
    INSERT INTO idempotent_actions_capture
        (id, key, generation, effect, params, fingerprint, policy, state, token, attempts, in_doubt,
         wake_at, waiting_for, created_at, first_sent_at, finished_at, provider_ref, result,
         result_is_repr, hook_error, action, subject_model, subject_pk, expects, escalation_id)
    SELECT g, 'billing.send_dunning_notice:' || g, 1,
        CASE WHEN g % 10 = 0 THEN 'billing.charge_order' ELSE 'billing.send_dunning_notice' END,
        '{"to": "a@example.org", "number": "n1", "rung": "reminder"}', repeat('f', 64), '{}', state,
        1, 1, state = 'unknown',
        CASE WHEN state IN ('pending', 'sending', 'unknown') THEN at + interval '500 days' END, '',
        at, at, CASE WHEN state IN ('succeeded', 'failed', 'void') THEN at END,
        CASE WHEN state = 'succeeded' THEN 'ref_' || g ELSE '' END, '{}', false,
        CASE WHEN g % 5000 = 7 THEN 'ValueError: x' ELSE '' END,
        'escalate_overdue:billing.invoice', 'billing.invoice', (g % %(subjects)s + 1)::text,
        'escalated', g
    FROM (
        SELECT g, now() - (%(rows)s - g) * interval %(span)s / %(rows)s AS at,
            CASE g % 1000 WHEN 1 THEN 'review' WHEN 2 THEN 'failed' WHEN 3 THEN 'unknown'
                WHEN 4 THEN 'unknown' WHEN 5 THEN 'pending' WHEN 6 THEN 'pending'
                WHEN 7 THEN 'pending' WHEN 8 THEN 'sending'
                ELSE CASE WHEN g % 50 = 9 THEN 'void' ELSE 'succeeded' END END AS state
        FROM generate_series(1, %(rows)s::bigint) g
    ) AS captures
    """,
    """
    INSERT INTO idempotent_actions_captureattempt
        (capture_id, token, generation, worker, started_at, finished_at, outcome, provider_ref,
         late)
    SELECT id, 1, 1, 'host:1', created_at, finished_at,
        CASE WHEN state = 'void' THEN 'not_sent' WHEN finished_at IS NULL THEN '' ELSE state END,
        provider_ref, false
    FROM idempotent_actions_capture
    """,
    """
    INSERT INTO idempotent_actions_pause (scope, name, reason, actor, paused_at, lifted_by,
        lift_reason)
    VALUES ('effect', 'billing.charge_order', 'a strike', 'clerk', now(), '', '')
    """,
    "ANALYZE",
]


def fill(rows: int) -> None:
    """Write ``rows`` acts and as many captures with a try each, and what belongs to them.

    The tables are empty before. Ten thousand rows take about a second.
    """
    numbers: dict[str, int | str] = {
        "rows": rows,
        "subjects": max(1, rows // ACTS_OF_ONE),
        "runs": max(3, rows // 10),
        "span": _SPAN,
    }
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        for statement in _STATEMENTS:
            cursor.execute(statement.replace(" % ", " %% "), numbers)
