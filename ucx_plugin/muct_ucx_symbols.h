/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_UCX_SYMBOLS_H
#define MUCT_UCX_SYMBOLS_H

/**
 * @file
 * Every symbol of UCX that a core takes, as a weak reference.
 *
 * A core is linked without UCX and opened where no UCX may be in its scope; the loader
 * fills the references in (loader/loader_bind.h). The makefile includes this file into
 * every object of a core. A symbol that is missing here ends the link of
 * mori-core-1.N.so with "undefined reference": add its line. An unused one costs
 * nothing; contrib/check_symbols.sh reports it.
 */

/* Use the compiler's pragma for undeclared symbols where it has one: with link-time
 * optimization (-flto) assembly is compiled apart from the rest. */
#ifdef __clang__
#define MUCT_UCX_SYMBOL(_name) __asm__(".weak " #_name)
#else
#define MUCT_UCX_PRAGMA(_text) _Pragma(#_text)
#define MUCT_UCX_SYMBOL(_name) MUCT_UCX_PRAGMA(weak _name)
#endif

MUCT_UCX_SYMBOL(ucs_class_call_cleanup_chain);
MUCT_UCX_SYMBOL(ucs_config_array_string);
MUCT_UCX_SYMBOL(ucs_config_clone_allow_list);
MUCT_UCX_SYMBOL(ucs_config_clone_double);
MUCT_UCX_SYMBOL(ucs_config_clone_int);
MUCT_UCX_SYMBOL(ucs_config_clone_string);
MUCT_UCX_SYMBOL(ucs_config_clone_table);
MUCT_UCX_SYMBOL(ucs_config_clone_uint);
MUCT_UCX_SYMBOL(ucs_config_clone_ulong);
MUCT_UCX_SYMBOL(ucs_config_doc_nop);
MUCT_UCX_SYMBOL(ucs_config_global_list);
MUCT_UCX_SYMBOL(ucs_config_help_allow_list);
MUCT_UCX_SYMBOL(ucs_config_help_enum);
MUCT_UCX_SYMBOL(ucs_config_help_generic);
MUCT_UCX_SYMBOL(ucs_config_help_table);
MUCT_UCX_SYMBOL(ucs_config_parser_fill_opts);
MUCT_UCX_SYMBOL(ucs_config_parser_release_opts);
MUCT_UCX_SYMBOL(ucs_config_release_allow_list);
MUCT_UCX_SYMBOL(ucs_config_release_nop);
MUCT_UCX_SYMBOL(ucs_config_release_string);
MUCT_UCX_SYMBOL(ucs_config_release_table);
MUCT_UCX_SYMBOL(ucs_config_sprintf_allow_list);
MUCT_UCX_SYMBOL(ucs_config_sprintf_bool);
MUCT_UCX_SYMBOL(ucs_config_sprintf_bw);
MUCT_UCX_SYMBOL(ucs_config_sprintf_enum);
MUCT_UCX_SYMBOL(ucs_config_sprintf_hex);
MUCT_UCX_SYMBOL(ucs_config_sprintf_memunits);
MUCT_UCX_SYMBOL(ucs_config_sprintf_string);
MUCT_UCX_SYMBOL(ucs_config_sprintf_ternary_auto);
MUCT_UCX_SYMBOL(ucs_config_sprintf_time);
MUCT_UCX_SYMBOL(ucs_config_sprintf_uint);
MUCT_UCX_SYMBOL(ucs_config_sprintf_ulunits);
MUCT_UCX_SYMBOL(ucs_config_sscanf_allow_list);
MUCT_UCX_SYMBOL(ucs_config_sscanf_bool);
MUCT_UCX_SYMBOL(ucs_config_sscanf_bw);
MUCT_UCX_SYMBOL(ucs_config_sscanf_enum);
MUCT_UCX_SYMBOL(ucs_config_sscanf_hex);
MUCT_UCX_SYMBOL(ucs_config_sscanf_memunits);
MUCT_UCX_SYMBOL(ucs_config_sscanf_string);
MUCT_UCX_SYMBOL(ucs_config_sscanf_table);
MUCT_UCX_SYMBOL(ucs_config_sscanf_ternary);
MUCT_UCX_SYMBOL(ucs_config_sscanf_ternary_auto);
MUCT_UCX_SYMBOL(ucs_config_sscanf_time);
MUCT_UCX_SYMBOL(ucs_config_sscanf_uint);
MUCT_UCX_SYMBOL(ucs_config_sscanf_ulunits);
MUCT_UCX_SYMBOL(ucs_empty_function_do_assert_void);
MUCT_UCX_SYMBOL(ucs_get_system_id);
MUCT_UCX_SYMBOL(ucs_global_opts);
MUCT_UCX_SYMBOL(ucs_log_dispatch);
MUCT_UCX_SYMBOL(ucs_status_string);
MUCT_UCX_SYMBOL(ucs_topo_find_device_by_bdf_name);
MUCT_UCX_SYMBOL(ucs_topo_sys_device_bdf_name);
MUCT_UCX_SYMBOL(ucs_topo_sys_device_set_name);
MUCT_UCX_SYMBOL(ucs_vfs_obj_add_ro_file);
MUCT_UCX_SYMBOL(ucs_vfs_show_primitive);
MUCT_UCX_SYMBOL(uct_base_ep_connect_to_ep);
MUCT_UCX_SYMBOL(uct_base_ep_is_connected);
MUCT_UCX_SYMBOL(uct_base_ep_t_class);
MUCT_UCX_SYMBOL(uct_base_ep_t_init);
MUCT_UCX_SYMBOL(uct_base_iface_estimate_perf);
MUCT_UCX_SYMBOL(uct_base_iface_is_reachable);
MUCT_UCX_SYMBOL(uct_base_iface_progress_disable);
MUCT_UCX_SYMBOL(uct_base_iface_progress_enable);
MUCT_UCX_SYMBOL(uct_base_iface_query);
MUCT_UCX_SYMBOL(uct_base_iface_t_class);
MUCT_UCX_SYMBOL(uct_base_iface_t_init);
MUCT_UCX_SYMBOL(uct_base_rkey_compare);
MUCT_UCX_SYMBOL(uct_component_register);
MUCT_UCX_SYMBOL(uct_components_list);
MUCT_UCX_SYMBOL(uct_iface_base_query_v2);
MUCT_UCX_SYMBOL(uct_iface_config_table);
MUCT_UCX_SYMBOL(uct_iface_fill_info_str_buf);
MUCT_UCX_SYMBOL(uct_iface_handle_ep_err);
MUCT_UCX_SYMBOL(uct_iface_scope_is_reachable);
MUCT_UCX_SYMBOL(uct_md_base_md_query);
MUCT_UCX_SYMBOL(uct_md_config_table);
MUCT_UCX_SYMBOL(uct_md_query_empty_md_resource);
MUCT_UCX_SYMBOL(uct_md_query_single_md_resource);
MUCT_UCX_SYMBOL(uct_single_device_resource);
MUCT_UCX_SYMBOL(uct_tl_register);

#endif
