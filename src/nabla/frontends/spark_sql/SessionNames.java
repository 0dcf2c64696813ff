import java.lang.reflect.Field;
import java.util.*;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.*;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The stored tables that a session knows by name. As a rule of its analyzer it sees every query before Spark looks a name up,
 * whoever holds the session: it lets Python bring the names to their newest versions, and refuses commands that would write to
 * them. Compiled at run time by Janino; so this is Java without lambdas and with erased generics.
 */
public class SessionNames extends Rule {
    /** Commands that begin like this only read what they name. */
    private static final String[] READING = {"Describe", "Show", "Explain", "Cache", "Uncache", "Refresh", "Analyze"};

    /** The fields of commands that hold what is read, and not what is written. */
    private static final List SOURCES = Arrays.asList(new Object[] {"query", "plan", "source", "sourceTable", "logicalPlan"});

    /** The SQL state of an operation that an object does not allow. Scripts look at it. */
    private static final String NOT_ALLOWED = "42809";

    private SparkSession session;
    private Runnable renew;
    private final Map shown = new HashMap();
    private final ThreadLocal registering = new ThreadLocal();
    private final ThreadLocal renewed = new ThreadLocal();
    private volatile Map refusals = new HashMap();
    private AnsweredQueries answered;

    /**
     * Becomes a rule of a session's analyzer. Extensions come too late for a session that is there already. `renew` is called
     * once in the analysis of a query, before its names are looked up.
     */
    public void install(SparkSession session, Runnable renew) throws Exception {
        this.session = session;
        this.renew = renew;
        Object analyzer = session.sessionState().analyzer();
        Field rules = analyzer.getClass().getDeclaredField("hintResolutionRules");
        rules.setAccessible(true);
        List all = new ArrayList(CollectionConverters.asJava((Seq) rules.get(analyzer)));
        all.add(this);
        rules.set(analyzer, CollectionConverters.asScala(all).toSeq());
    }

    // ---------------------------------------------------------------- names, for Python

    /** Makes a name stand for a frame. `mark` tells the content from any other that the name may stand for. */
    public void show(String name, Dataset frame, String mark) throws Exception {
        registering.set(Boolean.TRUE);
        try {
            frame.createOrReplaceTempView(name);
        } finally {
            registering.remove();
        }
        synchronized (shown) {
            shown.put(name, new Object[] {current(name), mark});
        }
    }

    public void drop(String name) {
        synchronized (shown) {
            if (isShown(name)) catalog().dropTempView(name);
            shown.remove(name);
        }
    }

    /**
     * The names that stand for what they were made to stand for, each with its mark after it: users may drop names. It is one text
     * with zeros in between, since every item of a map would cost Python a call.
     */
    public String marks() {
        StringBuilder found = new StringBuilder();
        synchronized (shown) {
            for (Object name : shown.keySet()) {
                if (isShown((String) name)) {
                    found.append(name).append('\0').append(((Object[]) shown.get(name))[1]).append('\0');
                }
            }
        }
        return found.toString();
    }

    /** Names that cannot be read now, each with the code, message, place and remedy of the error to raise. */
    public void refuse(Map names) {
        refusals = names;
    }

    // ---------------------------------------------------------------- what plans read, for Python

    /** The mark of a View of Spark that stands for a stored table with the content that its name stands for now; else null. */
    String markOf(View view) {
        if (!view.isTempView() || view.desc().identifier().database().isDefined()) return null;
        synchronized (shown) {
            String name = find(shown, view.desc().identifier().table());
            if (name == null || !isShown(name)) return null;
            Object[] own = (Object[]) shown.get(name);
            if (!(own[0] instanceof TemporaryViewRelation) || ((TemporaryViewRelation) own[0]).plan().isEmpty()) return null;
            LogicalPlan plan = (LogicalPlan) ((TemporaryViewRelation) own[0]).plan().get();
            return plan == view.child() || plan.sameResult(view.child()) ? (String) own[1] : null;
        }
    }

    /** Whether a plan reads one of these names with another content than the name stands for now. */
    public String outdated(LogicalPlan plan, String names) {
        Set known = new HashSet(Arrays.asList((Object[]) names.split("\0")));
        return outdatedIn(plan, known);
    }

    private String outdatedIn(LogicalPlan plan, Set known) {
        if (plan instanceof View) {
            String name = ((View) plan).desc().identifier().unquotedString();
            if (known.contains(name.toLowerCase(Locale.ROOT))) return markOf((View) plan) == null ? name : null;
        }
        String found = null;
        for (Iterator i = plan.subqueries().iterator(); found == null && i.hasNext();) found = outdatedIn((LogicalPlan) i.next(), known);
        for (Iterator i = plan.children().iterator(); found == null && i.hasNext();) found = outdatedIn((LogicalPlan) i.next(), known);
        return found;
    }

    /** Lets Python answer queries of this session from now on (see AnsweredQueries), or no longer if it gives null. */
    public void answerWith(BiFunction answer) throws Exception {
        if (answered == null) {
            answered = new AnsweredQueries(session, new Function() {
                public Object apply(Object view) {
                    return markOf((View) view);
                }
            });
        }
        answered.answerWith(answer);
    }

    /** Keeps a frame, and whatever is made from it, from being answered. */
    public void keepPlain(Dataset frame) {
        AnsweredQueries.keepPlain(((org.apache.spark.sql.classic.Dataset) frame).queryExecution().analyzed());
    }

    // ---------------------------------------------------------------- the rule

    public TreeNode apply(TreeNode tree) {
        LogicalPlan plan = (LogicalPlan) tree;
        if (registering.get() != null) return plan;
        List reads = new ArrayList();
        List writes = new ArrayList();
        visit(plan, reads, writes);
        if (!(reads.isEmpty() && writes.isEmpty())) renewOnce();
        for (Object name : reads) {
            Map refusals = this.refusals;
            String found = find(refusals, (String) name);
            if (found != null) fail((List) refusals.get(found));
        }
        for (Object name : writes) {
            if (isKnown((String) name)) fail(notWritable((String) name));
        }
        return plan;
    }

    /** One query sees all names at the same moment; the plans of its views and subqueries are analyzed one by one. */
    private void renewOnce() {
        Object analysis = AnalysisContext.get().relationCache();
        if (renewed.get() == analysis) return;
        renewed.set(analysis);
        renew.run();
    }

    private void visit(LogicalPlan plan, List reads, List writes) {
        if (plan instanceof UnresolvedRelation) add(((UnresolvedRelation) plan).multipartIdentifier(), reads);
        if (isWriting(plan)) {
            for (int i = 0; i < plan.productArity(); i++) {
                if (!SOURCES.contains(plan.productElementName(i))) target(plan.productElement(i), writes);
            }
        }
        for (Iterator i = plan.subqueries().iterator(); i.hasNext();) visit((LogicalPlan) i.next(), reads, writes);
        for (Iterator i = plan.children().iterator(); i.hasNext();) visit((LogicalPlan) i.next(), reads, writes);
    }

    private boolean isWriting(LogicalPlan plan) {
        String kind = plan.getClass().getSimpleName();
        for (int i = 0; i < READING.length; i++) {
            if (kind.startsWith(READING[i])) return false;
        }
        boolean writing = plan instanceof Command || plan instanceof ParsedStatement || kind.equals("CreateTable");
        return writing && !isGlobal(plan);
    }

    /** Whether a command makes a global temporary view: such names have a database of their own. */
    private boolean isGlobal(LogicalPlan plan) {
        for (int i = 0; i < plan.productArity(); i++) {
            String field = plan.productElementName(i);
            Object value = plan.productElement(i);
            if (field.equals("viewType") && value.toString().startsWith("Global")) return true;
            if (field.equals("global") && Boolean.TRUE.equals(value)) return true;
        }
        return false;
    }

    private void target(Object part, List writes) {
        if (part instanceof Option && ((Option) part).isDefined()) part = ((Option) part).get();
        while (part instanceof SubqueryAlias) part = ((SubqueryAlias) part).child();
        if (part instanceof CatalogTable) {
            part = ((CatalogTable) part).identifier();
        } else if (part instanceof TableIdentifier && ((TableIdentifier) part).database().isDefined()) {
            return;
        }
        if (part instanceof TableIdentifier) {
            Option database = ((TableIdentifier) part).database();
            if (database.isEmpty() || catalog().getCurrentDatabase().equals(database.get())) {
                writes.add(((TableIdentifier) part).table());
            }
        } else if (part instanceof UnresolvedRelation) {
            add(((UnresolvedRelation) part).multipartIdentifier(), writes);
        } else if (part instanceof UnresolvedTable) {
            add(((UnresolvedTable) part).multipartIdentifier(), writes);
        } else if (part instanceof UnresolvedView) {
            add(((UnresolvedView) part).multipartIdentifier(), writes);
        } else if (part instanceof UnresolvedTableOrView) {
            add(((UnresolvedTableOrView) part).multipartIdentifier(), writes);
        } else if (part instanceof UnresolvedIdentifier) {
            add(((UnresolvedIdentifier) part).nameParts(), writes);
        }
    }

    private void add(Seq parts, List names) {
        boolean own = parts.size() == 1 || "session".equalsIgnoreCase((String) parts.apply(parts.size() - 2));
        if (own) names.add(parts.last());
    }

    // ---------------------------------------------------------------- looking names up

    private SessionCatalog catalog() {
        return session.sessionState().catalog();
    }

    private Object current(String name) {
        Option found = catalog().getRawTempView(name);
        return found.isDefined() ? found.get() : null;
    }

    private boolean isShown(String name) {
        Object[] own = (Object[]) shown.get(name);
        return own != null && own[0] == current(name);
    }

    private boolean isKnown(String name) {
        synchronized (shown) {
            String found = find(shown, name);
            return find(refusals, name) != null || (found != null && isShown(found));
        }
    }

    private String find(Map names, String name) {
        for (Object known : names.keySet()) {
            if (((String) known).equalsIgnoreCase(name)) return (String) known;
        }
        return null;
    }

    // ---------------------------------------------------------------- errors

    private List notWritable(String name) {
        return Arrays.asList(new Object[] {
            "NABLA_NOT_WRITABLE", "a statement of a Spark session cannot change what belongs to a lake", "\"" + name + "\"",
            "Run it with lake.sql, or write in a transaction: with lake.transaction() as tx: tx.insert(…)."});
    }

    /** An error of the analyzer with the code of Nabla as its condition, from which Python makes its own again. */
    private void fail(List error) {
        String[] keys = {"code", "message", "place", "remedy"};
        Map parameters = new HashMap();
        for (int i = 0; i < keys.length; i++) parameters.put(keys[i], (String) error.get(i));
        String text = error.get(0) + ": " + error.get(1) + " (" + error.get(2) + "). " + error.get(3);
        Object fields = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(parameters));
        Platform.throwException(new AnalysisException(text, Option.empty(), Option.empty(), Option.empty(),
            Option.apply(error.get(0)), (scala.collection.immutable.Map) fields, new QueryContext[0],
            Option.apply(NOT_ALLOWED), Option.apply("<message>")));
    }
}
