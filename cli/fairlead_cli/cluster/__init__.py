"""Which cluster is asked, as kubectl finds it, and what is read there.

    --kubeconfig, --context, -n, -A, -l ──target.options──▶ Target ─┬─ ask(question)    one question, one answer
                                                                    └─ pages(source)    what comes, as it comes
    collections ─┬─ items(kube, path)            a collection, page by page
                 └─ changes(kube, paths)         the same, and then each change

A command says which options it takes and is given ``target``:

    @click.command()
    @target.options(namespace=True, all_namespaces=True, selector=True)
    @printer.options()
    def objects(target: Target, shown: Printer) -> None:
        found = target.ask(lambda kube: collections.items(kube, target.path("objectsyncs"), **target.query()))

A question may also write: ``kube.request("PATCH", path, body, content_type=MERGE_PATCH)``.  What goes wrong, a cluster
that is not there or a request that it refuses, is one sentence on standard error and exit code 1.

Without --kubeconfig: KUBECONFIG (several files as kubectl merges them), ~/.kube/config, then the pod's own service
account.  Without -n: the namespace of the context, else `default`.
"""
