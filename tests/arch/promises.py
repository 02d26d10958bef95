"""Which tests show what the pages promise: one table, from which the appendix of docs/ is generated.

``python -m tests.arch.promises > docs/reference/promises-and-tests.md`` writes the page, and so does
``make docs``. ``tests/arch/test_promises.py`` holds the table, the page, the tests and the headings together.
"""

import re
from collections.abc import Mapping, Sequence

SHOWN_BY: Mapping[str, Mapping[str, Sequence[str]]] = {
    "explanation/reliability.md": {
        "1. An accepted submission is never lost, and runs once": (
            "tests/api/workflows/test_submit.py::test_a_broker_that_does_not_answer_loses_nothing",
            "tests/db/workflows/test_submission_at_once.py::test_one_key_at_the_same_moment_makes_one_workflow",
            "tests/db/workflows/test_submission_at_once.py::test_a_failure_while_writing_leaves_nothing",
            "tests/db/workflows/test_retention.py::test_a_workflow_that_has_not_ended_stays_however_old_it_is",
            "tests/db/workflows/test_retention.py::test_a_group_that_is_not_released_keeps_its_workflow",
            "tests/worker/test_sweeps.py::test_a_group_that_is_due_is_found_though_nobody_told",
            "tests/worker/test_crashes.py::test_a_worker_that_dies_in_a_call_is_taken_over_from",
            "tests/worker/test_crashes.py::test_only_one_worker_gets_a_group",
            "tests/api/workflows/test_submit.py::test_a_repeat_with_the_same_key_is_answered_again_and_makes_nothing",
        ),
        "2. A group that ended is released, with nothing left, or says that it is stuck": (
            "tests/e2e/test_lifecycle.py::test_a_gang_runs_in_one_rack_and_leaves_nothing",
            "tests/e2e/test_lifecycle.py::test_a_cancelled_gang_leaves_nothing",
            "tests/e2e/test_lifecycle.py::test_a_gang_cancelled_at_once_leaves_nothing",
            "tests/unit/lifecycle/test_plan.py::test_nothing_is_released_while_something_is_left",
            "tests/worker/test_reconcile.py::test_a_domain_that_does_not_go_is_waited_for_and_shown",
            "tests/worker/test_reconcile.py::test_a_group_that_cannot_be_taken_down_since_its_cluster_is_away_says_so",
            "tests/worker/test_reconcile.py::test_an_end_is_never_concluded_from_an_error",
            "tests/worker/test_logs.py::test_a_kubelet_that_never_answers_holds_the_release_up_for_a_bounded_time",
        ),
        "3. Nothing of ours exists that no row wants": (
            "tests/worker/test_sweeps.py::test_objects_that_no_row_wants_are_removed_pods_first",
            "tests/worker/test_sweeps.py::test_objects_of_released_groups_are_removed_and_of_others_kept",
            "tests/worker/test_sweeps.py::test_an_orphan_that_may_not_be_deleted_or_listed_keeps_no_other_one",
            "tests/worker/test_sweeps.py::test_orphans_are_swept_through_whichever_backend_of_the_cluster_answers",
            "tests/worker/test_sweeps.py::test_orphans_of_a_backend_that_is_gone_are_swept_for_a_while",
            "tests/db/pools/test_sync.py::test_the_objects_of_a_deleted_pool_go_and_those_that_others_need_stay",
            "tests/cluster/pools/test_real_cluster.py::test_a_pool_comes_changes_and_goes",
        ),
        "4. A ComputeDomain is never deleted while its group's pods run": (
            "tests/worker/test_reconcile.py::test_stopped_group_leaves_nothing_in_the_cluster",
            "tests/worker/test_reconcile.py::test_pods_that_do_not_go_keep_the_domain_alive",
            "tests/worker/test_crashes.py::test_one_lost_call_changes_nothing_of_the_end",
            "tests/unit/lifecycle/test_plan.py::test_the_domain_is_deleted_last_and_everything_is_waited_for",
            "tests/worker/test_sweeps.py::test_pods_that_could_not_be_listed_keep_the_rest_of_their_namespace",
        ),
        "5. A gang is never left half created": (
            "tests/worker/test_crashes.py::test_a_worker_that_dies_in_a_call_is_taken_over_from",
            "tests/worker/test_crashes.py::test_a_group_stopped_while_it_is_made_leaves_nothing",
            "tests/worker/test_reconcile.py::test_a_gang_that_cannot_be_completed_is_taken_down_at_its_queue_timeout",
            "tests/worker/test_reconcile.py::test_a_pod_group_that_somebody_deletes_of_a_waiting_gang_is_made_again",
            "tests/worker/test_reconcile.py::test_a_domain_that_somebody_deletes_of_a_waiting_gang_is_made_again",
            "tests/worker/test_reconcile.py::test_a_gang_that_loses_a_pod_and_its_pod_group_while_it_waits_is_made_whole_again",
            "tests/worker/test_minimums.py::test_one_reconcile_lowers_the_minimum_for_a_task_that_failed_for_good",
            "tests/worker/test_minimums.py::test_a_worker_that_dies_just_before_is_taken_over_from",
            "tests/e2e/test_evictions.py::test_a_gang_that_loses_a_task_and_lives_on_is_not_evicted_for_it",
            "tests/db/pools/test_sync.py::test_a_needed_topology_that_somebody_removed_comes_back",
            "tests/worker/test_reconcile.py::test_an_object_that_the_cluster_refuses_for_good_ends_the_group_and_is_cleaned_up",
        ),
        "6. No status goes backwards, and a terminal one never changes": (
            "tests/worker/test_record.py::test_a_task_moves_only_where_the_table_lets_it",
            "tests/worker/test_record.py::test_a_terminal_status_never_changes",
            "tests/worker/test_record.py::test_a_group_that_ended_stays_as_it_ended",
            "tests/worker/test_crashes.py::test_a_stale_lease_writes_nothing",
        ),
        "7. A fault of one backend, pool, workflow or pod name slows nobody else": (
            "tests/worker/test_sweeps.py::test_a_backend_with_many_due_groups_does_not_crowd_out_another",
            "tests/e2e/test_lifecycle.py::test_a_cluster_that_takes_calls_and_never_answers_keeps_no_other_from_its_work",
            "tests/worker/test_sweeps.py::test_an_orphan_that_may_not_be_deleted_or_listed_keeps_no_other_one",
            "tests/db/pools/test_sync.py::test_a_refusal_of_one_object_stops_no_other",
        ),
        "8. After any outage the system converges by itself": (
            "tests/worker/test_sweeps.py::test_a_backend_that_is_back_has_its_groups_reconciled",
            "tests/worker/test_reconcile.py::test_a_cluster_that_does_not_answer_is_told_and_gone_on_with",
            "tests/worker/test_connections.py::test_a_connection_that_the_server_cut_is_replaced_before_the_next_task",
            "tests/worker/test_observer.py::test_it_goes_on_after_cuts_and_forgotten_history",
            "tests/worker/test_observer.py::test_an_object_that_vanished_unobserved_is_found_out",
            "tests/e2e/test_lifecycle.py::test_work_for_a_cluster_that_is_away_is_accepted_and_carried_out_when_it_is_back",
        ),
    },
    "explanation/threat-model.md": {
        "The port": (
            "tests/web/test_slow_clients.py::test_half_sent_requests_hold_nobody_up",
            "tests/web/test_limits.py::test_half_a_request_is_ended_with_a_sentence",
            "tests/web/test_limits.py::test_an_address_cuts_its_own_oldest_and_nobody_elses",
            "tests/web/test_limits.py::test_an_answer_that_nobody_reads_is_cut",
            "tests/web/test_limits.py::test_a_caller_is_asked_to_come_again_when_all_threads_are_busy",
            "tests/web/test_garbage_on_the_wire.py::test_bytes_that_are_no_request_are_refused",
            "tests/web/test_garbage_on_the_wire.py::test_a_host_of_garbage",
            "tests/cluster/test_log_stream_memory.py::test_a_log_that_is_written_faster_than_it_is_read_waits_in_the_cluster",
        ),
        "REST and the gateway": (
            "tests/api/test_every_answer.py::test_nothing_but_health_and_the_login_answers_a_stranger",
            "tests/api/access/test_table.py::test_each_endpoint_answers_each_role_as_the_table_says",
            "tests/api/access/test_table.py::test_the_table_has_every_endpoint_and_no_other",
            "tests/api/access/test_gateway.py::test_beside_a_gateway_nobody_else_is_believed",
            "tests/web/test_headers_on_the_wire.py::test_a_repeated_identity_header_is_refused",
            "tests/api/access/test_limits.py::test_submissions_of_a_user_are_limited_and_refused_ones_leave_nothing",
            "tests/fuzz/test_api_fuzz.py::test_no_request_brings_the_service_down",
            "tests/api/test_garbage.py::test_garbage_is_refused_at_every_address_and_no_fault_of_the_server",
            "tests/api/test_every_answer.py::test_readiness_names_backends_to_those_who_may_read_them",
            "tests/api/access/test_tokens.py::test_a_token_made_with_another_ends_with_its_revocation",
            "tests/api/access/test_gateway.py::test_without_sec_fetch_site_the_origin_says_whose_page_it_is",
            "tests/unit/access/test_gateway.py::test_a_forwarder_says_whose_address_it_is_and_nothing_else",
            "tests/admin/test_access_admin.py::test_a_stranger_elsewhere_locks_nobody_out",
            "tests/api/access/test_short_logins.py::test_forgeries_are_refused",
            "tests/api/access/test_short_logins.py::test_it_ends_with_its_personal_token",
            "tests/api/access/test_short_logins.py::test_it_has_exactly_the_rights_of_its_user_at_that_moment",
            "tests/api/access/test_short_logins.py::test_tries_are_limited_by_address_and_by_user",
            "tests/api/access/test_short_logins.py::test_a_key_is_changed_without_ending_a_login",
            "tests/api/identity/test_bearer.py::test_a_token_is_refused",
            "tests/api/identity/test_bearer.py::test_nobody_becomes_a_user_of_the_same_name",
            "tests/api/identity/test_bearer.py::test_a_bearer_makes_no_session_and_writes_nothing_after_the_first_time",
            "tests/api/identity/test_fetching.py::test_an_answer_that_never_ends_is_given_up",
            "tests/unit/identity/test_provider.py::test_an_unknown_key_is_fetched_at_once_and_not_too_often",
            "tests/unit/identity/test_provider.py::test_threads_with_a_known_key_do_not_wait_for_one_with_an_unknown_key",
            "tests/api/identity/test_pages_login.py::test_a_token_for_the_pages_is_refused",
            "tests/api/identity/test_pages_login.py::test_a_callback_of_another_browser_is_refused",
            "tests/api/identity/test_pages_login.py::test_the_session_gets_a_new_key_with_the_login",
            "tests/api/identity/test_pages_login.py::test_a_login_leads_nowhere_else",
        ),
        "Pools and backends": (
            "tests/api/pools/test_privilege.py::test_a_privilege_of_a_backend_is_not_the_pools_keepers_to_hand_out",
            "tests/api/pools/test_privilege.py::test_a_change_that_narrows_or_leaves_privilege_needs_the_pool_alone",
            "tests/api/pools/test_privilege.py::test_a_rollback_gives_no_privilege_back",
            "tests/api/pools/test_privilege.py::test_a_hidden_backend_is_answered_like_an_absent_one",
            "tests/unit/pools/test_privilege.py::test_it_widens",
            "tests/api/pools/test_addresses.py::test_what_another_backend_uses_needs_the_right_on_it",
            "tests/api/pools/test_addresses.py::test_a_cluster_is_not_asked_with_credentials_of_others",
            "tests/api/pools/test_addresses.py::test_a_namespace_of_the_system_is_no_backends",
            "tests/api/pools/test_addresses.py::test_pools_stand_below_no_queue_of_another_backend",
            "tests/api/pools/test_addresses.py::test_a_prefix_gives_no_queue_the_name_of_anothers",
            "tests/api/pools/test_keepers.py::test_a_keeper_takes_no_more_than_the_backend_allows",
            "tests/api/pools/test_keepers.py::test_a_keeper_joins_what_the_backend_lists",
            "tests/api/pools/test_keepers.py::test_without_a_list_a_keeper_joins_what_nobody_else_has",
            "tests/api/pools/test_long_lists.py::test_long_lists_are_refused",
        ),
        "Sessions in tasks": (
            "tests/api/workflows/test_exec.py::test_a_pool_that_does_not_allow_it_says_who_can_change_that",
            "tests/web/test_sessions.py::test_a_key_is_good_once",
            "tests/web/test_sessions.py::test_a_key_is_worth_nothing_to_another_user",
            "tests/web/test_sessions.py::test_a_page_of_another_site_opens_no_session",
            "tests/web/test_sessions.py::test_no_other_address_is_upgraded",
            "tests/web/test_sessions.py::test_a_pod_that_took_the_name_is_never_reached",
            "tests/web/test_sessions.py::test_a_right_that_is_taken_away_ends_the_session_soon",
            "tests/web/test_sessions.py::test_each_session_is_a_line_of_the_timeline",
            "tests/unit/pools/test_privilege.py::test_it_widens",
            "tests/arch/test_rights.py::test_the_rights_to_sessions_are_webs_alone_and_what_a_session_does",
        ),
        "The admin": (
            "tests/admin/test_access_admin.py::test_staff_that_was_not_given_access_does_not_hand_it_out",
            "tests/admin/test_access_admin.py::test_tries_to_log_in_are_limited_by_the_name_tried",
            "tests/fuzz/test_config_fuzz.py::test_any_pool_is_saved_and_usable_or_refused_whole",
        ),
        "The pages": (
            "tests/api/pages/test_frame.py::test_no_page_carries_scripts_or_styles_of_its_own",
            "tests/api/pages/test_frame.py::test_the_login_leads_to_no_other_site",
            "tests/api/pages/test_frame.py::test_too_many_tries_are_refused_with_a_time_to_wait",
            "tests/api/pages/test_pools_pages.py::test_a_word_of_a_pool_is_text_whatever_it_contains",
            "tests/api/pages/test_pools_pages.py::test_a_pool_that_is_hidden_is_not_there",
            "tests/api/pages/test_submit_page.py::test_a_page_of_another_site_submits_nothing",
            "tests/unit/access/test_environment.py::test_cookies_need_tls_where_the_service_is_reached_by_it",
        ),
        "A workflow's text": (
            "tests/api/workflows/test_notify.py::test_a_wrong_target_is_refused_at_its_place",
            "tests/api/workflows/test_notify.py::test_a_pool_keeps_the_name_of_a_secret_and_never_the_secret",
            "tests/worker/test_news.py::test_no_address_within_the_cluster_is_connected_to_by_whatever_name",
            "tests/worker/test_news.py::test_webhooks_lead_to_public_addresses_and_listed_networks_alone",
            "tests/api/workflows/test_isolation.py::test_a_task_asks_in_vain_for",
            "tests/api/workflows/test_isolation.py::test_a_pod_holds_no_key_to_the_cluster_and_no_door_to_the_node",
            "tests/unit/spec/test_document_and_template.py::test_a_template_finds_no_way_out",
            "tests/unit/spec/test_document_and_template.py::test_a_template_that_cannot_be_rendered_is_refused",
            "tests/unit/spec/test_bounds_and_reach.py::test_a_short_text_cannot_make_many_dependencies",
            "tests/unit/spec/test_bounds_and_reach.py::test_a_text_that_may_take_long_to_read_is_known_beforehand",
            "tests/unit/web/test_turns.py::test_one_runs_two_wait_and_the_next_is_refused_with_a_time",
            "tests/unit/web/test_turns.py::test_a_request_that_waits_for_a_turn_holds_no_thread",
            "tests/unit/web/test_children.py::test_a_job_that_meets_a_bound_is_ended_and_the_bound_is_named",
            "tests/unit/web/test_children.py::test_a_job_finds_no_variables_no_sockets_of_others_and_no_framework",
            "tests/unit/web/test_children.py::test_nothing_stays_of_a_caller_that_ends",
            "tests/unit/spec/test_reading.py::test_a_text_that_meets_a_bound_of_reading_is_refused_and_the_bound_is_named",
            "tests/api/workflows/test_turns.py::test_a_user_with_three_expensive_requests_is_refused_another",
            "tests/unit/lifecycle/test_deadlines.py::test_every_live_status_has_a_deadline_or_a_reason_why_it_needs_none",
            "tests/unit/pools/test_images.py::test_a_reference_that_no_runtime_reads_is_refused_with_its_faulty_part",
            "tests/api/workflows/test_reads.py::test_dependencies_are_read_as_names",
            "tests/api/workflows/test_kept_bytes.py::test_a_document_of_comments_is_refused_beyond_its_bound",
            "tests/api/workflows/test_kept_bytes.py::test_a_day_takes_so_many_bytes_of_a_user_and_then_says_when_to_come_back",
            "tests/db/workflows/test_retention.py::test_an_old_workflow_goes_with_everything_that_belongs_to_it",
            "tests/db/workflows/test_retention.py::test_a_number_is_not_given_again_after_its_workflow_was_removed",
            "tests/fuzz/test_spec_fuzz.py::test_any_structure_is_a_workflow_or_a_refusal",
            "tests/api/workflows/test_isolation.py::test_nobody_can_write_the_name_of_another_users_secret",
            "tests/api/pools/test_pool_config.py::test_a_pool_shares_only_secrets_that_are_nobodys",
            "tests/api/workflows/test_isolation.py::test_a_mount_follows_no_link_out_of_its_directory",
            "tests/api/workflows/test_isolation.py::test_a_label_with_a_domain_needs_one_that_is_listed",
            "tests/api/workflows/test_isolation.py::test_labels_that_give_orders_stay_off_the_pods",
        ),
        "Objects in the cluster": (
            "tests/e2e/test_rights.py::test_granted_rights_are_used_and_no_others_are_asked_for",
            "tests/worker/test_sweeps.py::test_an_object_that_is_not_ours_or_belongs_to_no_group_or_is_young_is_never_touched",
            "tests/worker/test_sweeps.py::test_a_copy_in_another_namespace_or_cluster_is_removed_and_the_group_keeps_its_own",
            "tests/worker/test_elsewhere.py::test_a_failed_pod_elsewhere_ends_nothing",
            "tests/worker/test_elsewhere.py::test_a_domain_and_a_pod_group_elsewhere_are_not_the_groups",
            "tests/worker/test_elsewhere.py::test_an_event_reaches_a_timeline_from_home_alone",
            "tests/cluster/test_restore.py::test_the_database_of_yesterday_leaves_running_work_alone_until_it_is_adopted",
            "tests/cluster/test_restore.py::test_a_copy_beside_the_original_writes_nothing_and_the_original_goes_on",
            "tests/unit/cluster/test_guarded.py::test_a_write_without_a_permit_is_not_sent",
            "tests/worker/test_guard.py::test_no_error_about_the_mark_is_a_permission_or_ends_a_group",
        ),
        "Gangs of others": (
            "tests/api/others/test_names_stay.py",
            "tests/api/others/test_waiting.py::test_a_gang_of_which_something_is_not_read_is_never_called_impossible",
            "tests/api/pages/test_cluster_pages.py::test_those_without_the_action_read_how_many_wait",
            "tests/api/pages/test_cluster_pages.py::test_hostile_texts_of_a_cluster_are_plain_text",
        ),
        "What a cluster says": (
            "tests/cluster/test_contract.py::test_a_text_that_no_database_stores_comes_as_one_that_it_does",
            "tests/unit/cluster/test_storable.py::test_every_json_comes_out_storable",
            "tests/worker/test_observer.py::test_an_object_that_cannot_be_written_is_kept_aside_and_holds_up_nothing",
            "tests/worker/test_observer.py::test_an_object_that_cannot_be_read_is_kept_aside_until_it_is_gone",
            "tests/worker/test_observer.py::test_a_cluster_whose_changes_cannot_be_written_holds_up_no_other",
            "tests/worker/test_reconcile.py::test_an_error_that_nobody_foresaw_makes_its_group_back_off_and_say_so",
            "tests/worker/test_observer.py::test_a_late_write_of_a_former_holder_is_refused",
            "tests/worker/test_observer.py::test_an_older_version_is_not_written_over_a_newer_one",
            "tests/worker/test_observer.py::test_observers_that_die_again_and_again_lose_nothing",
            "tests/cluster/test_observers_die.py::test_observers_that_are_killed_while_pods_come_end_and_go_lose_nothing",
        ),
        "Kubeconfigs, Postgres, Redis": (
            "tests/api/test_secrets_stay.py::test_secrets_of_a_kubeconfig_stay",
            "tests/db/pools/test_refused_kubeconfigs.py::test_no_door_takes_it",
            "tests/unit/cluster/test_configured_files.py::test_a_path_to_anything_else_is_refused",
            "tests/unit/cluster/test_configured_files.py::test_a_hung_mount_costs_a_time_once_and_one_thread",
            "tests/unit/cluster/test_connection_files.py::test_a_kubeconfig_whose_mount_hangs_delays_no_other_cluster",
            "tests/worker/test_sweeps.py::test_a_group_that_is_due_is_found_though_nobody_told",
        ),
        "Task output": (
            "tests/api/access/test_table.py",
            "tests/db/workflows/test_log_store.py::test_a_name_is_made_of_uuids_and_a_number_alone",
            "tests/db/workflows/test_log_store.py::test_files_are_for_the_service_alone_and_a_directory_goes_with_its_last_log",
            "tests/worker/test_logs.py::test_the_store_is_bounded_and_the_oldest_logs_go_first",
            "tests/api/workflows/test_log_streams.py::test_places_are_limited_for_one_user_and_for_all_and_given_back",
        ),
        "Logs, events, answers": (
            "tests/api/test_secrets_stay.py::test_credentials_that_are_refused",
            "tests/api/test_secrets_stay.py::test_secrets_of_a_spec_stay",
            "tests/api/test_secrets_stay.py::test_secrets_that_a_worker_carries_into_the_cluster_stay",
            "tests/api/test_secrets_stay.py::test_a_fault_inside_is_an_id_and_nothing_else",
        ),
        "Pod templates": (
            "tests/unit/pools/test_pod_templates.py::test_no_two_users_have_one_word",
            "tests/unit/pools/test_pod_templates.py::test_a_users_word_is_a_text_and_is_not_looked_at_again",
        ),
    },
    "explanation/fit.md": {
        "How it is checked": (
            "tests/unit/scheduling/fit",
            "tests/verdicts/test_verdicts.py",
        ),
    },
    "reference/schedulers.md": {
        "kubernetes": (
            "tests/cluster/pools/test_composites.py",
            "tests/cluster/test_nested_sets.py",
            "tests/e2e/test_native.py",
            "tests/e2e/test_nested_lives.py",
            "tests/e2e/test_nested_sets.py",
            "tests/e2e/test_ungated_scheduler.py",
        ),
    },
    "reference/explain.md": {
        "Examples": ("tests/e2e/test_explain.py",),
    },
    "reference/cluster-rights.md": {
        "Rights in a cluster": (
            "tests/e2e/test_rights.py::test_granted_rights_are_used_and_no_others_are_asked_for",
        ),
    },
    "how-to/install.md": {
        "4. Install": (
            "tests/chart/test_running.py::test_from_installation_to_removal_with_the_rights_of_the_chart",
            "tests/chart/test_running.py::test_a_database_that_is_away_leaves_nothing_half_installed",
            "tests/chart/test_server.py",
        ),
    },
    "how-to/uninstall.md": {
        "Remove an installation": (
            "tests/chart/test_running.py::test_from_installation_to_removal_with_the_rights_of_the_chart",
        ),
    },
    "how-to/upgrade.md": {
        "With Helm": (
            "tests/chart/test_running.py::test_an_upgrade_under_load_and_the_way_back_lose_no_request",
            "tests/db/test_rollout.py",
        ),
        "What a migration may do": ("tests/arch/test_migrations.py",),
    },
    "how-to/cookbook.md": {
        "Cookbook": ("tests/e2e/test_examples.py",),
    },
    "how-to/osmo-client.md": {
        "With OSMO's command line": ("tests/contract",),
    },
}
"""Page and heading of a promise, with the tests that fail when it does not hold."""


def page() -> str:
    """The appendix, in Markdown."""
    lines = [
        "# Promises and their tests",
        "",
        "Generated by `make docs` from `tests/arch/promises.py`; a test keeps it true. A test named here",
        "fails when the section above it promises more than the code does.",
    ]
    for file, promises in SHOWN_BY.items():
        lines += ["", f"## {title_of(file)}"]
        for heading, tests in promises.items():
            lines += ["", f"### [{heading}](../{file}#{anchor(heading)})", ""]
            lines += [f"- `{test}`" for test in tests]
    return "\n".join(lines) + "\n"


def title_of(file: str) -> str:
    return file.partition("/")[2].removesuffix(".md").replace("-", " ").capitalize()


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 -- its output is the page
